// Dialogs: the browser's own, which keep the focus inside and close with Escape.
import { useEffect, useId, useReducer, useRef, useState } from "preact/hooks";

import { html } from "../html.js";
import { Mark } from "./parts.js";

export function Dialog({ title, close, wide, children }) {
  const element = useRef();
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${close}>
    <div class="dialog-head"><h2 id=${id}>${title}</h2><button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button></div>
    ${children}
  </dialog>`;
}

/**
 * Asks before something happens that cannot be taken back. `run` does it; what it throws is shown, and the dialog stays.
 * With `word`, the person types that word first.
 */
export function Confirm({ title, children, verb, tone = "bad", word, run, close }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [typed, setTyped] = useState("");
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await run();
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title} close=${close}>
    <form onSubmit=${submit}>
      <div class="dialog-body">${children}</div>
      ${word && html`<label class="field"><span>Type <code>${word}</code> to go on</span><input value=${typed} onInput=${(e) => setTyped(e.target.value)} autocomplete="off" /></label>`}
      ${error && html`<${Refusal} error=${error} />`}
      <div class="dialog-foot">
        <button type="button" onClick=${close}>Cancel</button>
        <button type="submit" class=${tone} disabled=${busy || (word && typed !== word)}>${busy ? "Working …" : verb}</button>
      </div>
    </form>
  <//>`;
}

export const Refusal = ({ error }) =>
  html`<div class="failure" role="alert"><${Mark} tone="bad" /><p><strong>${error.message}</strong> ${error.hint}</p></div>`;

/** A button that opens a dialog: <OpenDialog label="Seek …" dialog=${(close) => html`…`} />. */
export const OpenDialog = ({ label, dialog, tone = "", name }) =>
  html`<button type="button" class=${tone} aria-label=${name} onClick=${() => show(dialog)}>${label}</button>`;

// Dialogs stand beside the page, not in it: what is on the page may go while a dialog is open.
const open = [];
const listeners = new Set();
let number = 0;

function show(dialog) {
  const entry = { id: ++number };
  const opener = document.activeElement;
  entry.markup = dialog(() => {
    const at = open.indexOf(entry);
    if (at >= 0) open.splice(at, 1);
    tell();
    setTimeout(() => opener?.isConnected && opener.focus()); // when the dialog is gone
  });
  open.push(entry);
  tell();
}

const tell = () => listeners.forEach((listener) => listener());

export function Dialogs() {
  const [, redraw] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const leave = () => open.splice(0).length && redraw(); // the browser's back button
    listeners.add(redraw);
    addEventListener("popstate", leave);
    return () => {
      listeners.delete(redraw);
      removeEventListener("popstate", leave);
    };
  }, []);
  return open.map(({ id, markup }) => html`<${Shown} key=${id}>${markup}<//>`);
}

const Shown = ({ children }) => children;
