// Dark and light: by the system, or as chosen by hand. Charts are drawn, so they ask here for the colours.
import { useEffect, useReducer } from "preact/hooks";

const KEY = "queen-theme";
const NAMES = ["muted", "line", "first", "second", "third", "bad", "warn", "info", "firstWash", "secondWash", "thirdWash"];
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let colours = null;

function changed() {
  colours = null;
  listeners.forEach((listener) => listener());
}
system.addEventListener("change", changed);

/** A custom property is text; the colour that it means here and now is that of an element. */
function read() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const found = Object.fromEntries(
    NAMES.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }),
  );
  probe.remove();
  return { ...found, font: getComputedStyle(document.body).fontFamily };
}

export const theme = {
  choice: () => document.documentElement.dataset.theme ?? "system",

  choose(choice) {
    if (choice === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEY);
    } else {
      document.documentElement.dataset.theme = choice;
      localStorage.setItem(KEY, choice);
    }
    changed();
  },

  /** The colours of charts; a component that uses them is drawn again when they change. */
  use() {
    const [, redraw] = useReducer((n) => n + 1, 0);
    useEffect(() => {
      listeners.add(redraw);
      return () => listeners.delete(redraw);
    }, []);
    return (colours ??= read());
  },
};
