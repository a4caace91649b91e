// What a person's action has done, said once, for eyes and for screen readers.
import { useEffect, useReducer } from "preact/hooks";

import { html } from "../html.js";

const SHOWN_MS = 8_000;
const shown = [];
const listeners = new Set();
let number = 0;

export function say(text, tone = "ok") {
  const notice = { id: ++number, text, tone };
  shown.push(notice);
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
  tell();
}

export const complain = (error) => say([error.message, error.hint].filter(Boolean).join(" "), "bad");

function dismiss(id) {
  const at = shown.findIndex((notice) => notice.id === id);
  if (at >= 0) shown.splice(at, 1);
  tell();
}

const tell = () => listeners.forEach((listener) => listener());

export function Notices() {
  const [, redraw] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    listeners.add(redraw);
    return () => listeners.delete(redraw);
  }, []);
  return html`<div class="notices" role="status">
    ${shown.map(
      (notice) => html`<div key=${notice.id} class=${`notice ${notice.tone}`}>
        <span>${notice.text}</span>
        <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>✕</button>
      </div>`,
    )}
  </div>`;
}
