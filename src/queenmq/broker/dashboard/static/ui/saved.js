// Filters under a name, kept by this browser. A filter is what the address has behind its question mark.
import { useState } from "preact/hooks";

import { html } from "../html.js";
import { to } from "../router.js";

const NAME_MAX = 40;

/** `place`: the page that the filters belong to; `query`: the filter that is shown now. */
export function SavedFilters({ place, query }) {
  const key = `queen-filters-${place}`;
  const [saved, set] = useState(() => JSON.parse(localStorage.getItem(key) ?? "{}"));
  const [name, setName] = useState(null); // while a name is typed
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value));
  const keep = (next) => {
    localStorage.setItem(key, JSON.stringify(next));
    set(next);
    setName(null);
  };
  const save = (event) => {
    event.preventDefault();
    keep({ ...saved, [name.trim()]: given });
  };
  const forget = (old) => keep(Object.fromEntries(Object.entries(saved).filter(([each]) => each !== old)));
  const current = JSON.stringify(given);
  return html`${Object.entries(saved).map(
      ([each, values]) => html`<span class="chip"><a href=${to([place], values)} aria-current=${JSON.stringify(values) === current ? "true" : undefined}>${each}</a>
        <button type="button" class="quiet" aria-label=${`Forget the filter ${each}`} onClick=${() => forget(each)}>✕</button></span>`,
    )}
    ${name !== null
      ? html`<form class="chip" onSubmit=${save}><label><span class="off-screen">Name of the filter</span><input value=${name} maxlength=${NAME_MAX} required placeholder="Name" autofocus onInput=${(e) => setName(e.target.value)} /></label><button type="submit">Save</button></form>`
      : current !== "{}" && html`<button type="button" class="quiet" onClick=${() => setName("")}>Save this filter</button>`}`;
}
