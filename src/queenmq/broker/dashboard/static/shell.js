// What surrounds every page: where one can go, the theme, who is signed in, and whether the server answers.
import { useEffect, useReducer, useState } from "preact/hooks";

import { connection } from "./connection.js";
import { clock, duration } from "./format.js";
import { html } from "./html.js";
import { SECTIONS } from "./pages.js";
import { to } from "./router.js";
import { session, signOut } from "./session.js";
import { theme } from "./theming.js";
import { Dialogs } from "./ui/dialog.js";
import { Notices } from "./ui/notices.js";
import { Mark } from "./ui/parts.js";

const PHONE_SECTIONS = 4; // that fit beside "More" at the bottom of a phone
const THEMES = [["system", "Auto"], ["light", "Light"], ["dark", "Dark"]];

export function Shell({ section, children }) {
  return html`<a class="skip" href="#title" onClick=${skip}>Skip to the page</a>
    <div class="shell">
      <div class="side">
        <a class="brand" href=${to([])}><img src="dashboard/icon.svg" alt="" width="26" height="26" />Queen</a>
        <nav class="main-nav" aria-label="Pages">${SECTIONS.map((each) => html`<${Link} each=${each} section=${section} />`)}</nav>
        <div class="side-foot"><${Account} /></div>
      </div>
      <div class="stage">
        <${Banner} />
        <main>${children}</main>
      </div>
      <nav class="phone-nav" aria-label="Pages">
        ${SECTIONS.slice(0, PHONE_SECTIONS).map((each) => html`<${Link} each=${each} section=${section} />`)}
        <${More} section=${section} />
      </nav>
    </div>
    <${Dialogs} />
    <${Notices} />`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("title")?.focus();
}

const Icon = ({ path }) => html`<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" class="icon"><path d=${path} /></svg>`;

const Link = ({ each, section, onClick }) => html`<a href=${to(each.key ? [each.key] : [])} aria-current=${each.key === section ? "page" : undefined} onClick=${onClick}>
  <${Icon} path=${each.icon} /><span>${each.label}</span>
</a>`;

function More({ section }) {
  const [open, set] = useState(false);
  const rest = SECTIONS.slice(PHONE_SECTIONS);
  const close = () => set(false);
  return html`<button type="button" aria-expanded=${open} class=${rest.some((each) => each.key === section) ? "current" : ""} onClick=${() => set(!open)}>
      <${Icon} path="M5 10a2 2 0 1 0 0 4 2 2 0 0 0 0-4zm7 0a2 2 0 1 0 0 4 2 2 0 0 0 0-4zm7 0a2 2 0 1 0 0 4 2 2 0 0 0 0-4z" /><span>More</span>
    </button>
    ${open &&
    html`<div class="sheet">${rest.map((each) => html`<${Link} each=${each} section=${section} onClick=${close} />`)}<${Account} /></div>`}`;
}

function Account() {
  const [choice, set] = useState(theme.choice());
  const choose = (key) => {
    theme.choose(key);
    set(key);
  };
  return html`<div class="theme" role="group" aria-label="Theme">
      ${THEMES.map(([key, label]) => html`<button type="button" aria-pressed=${choice === key} onClick=${() => choose(key)}>${label}</button>`)}
    </div>
    ${session.roles !== null &&
    html`<p class="account"><strong>${session.subject}</strong><br />${session.roles.join(", ") || "no role"} <button type="button" class="quiet" onClick=${signOut}>Sign out</button></p>`}
    <p class="account"><a href="docs">All calls of the API</a><br />Version ${session.version}</p>`;
}

/** The server does not answer: since when, and when it is asked again. */
function Banner() {
  const [, redraw] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const unsubscribe = connection.subscribe(redraw);
    const timer = setInterval(() => connection.away && redraw(), 1_000);
    return () => {
      unsubscribe();
      clearInterval(timer);
    };
  }, []);
  const { away } = connection;
  if (!away) return html`<div role="status"></div>`;
  const seconds = Math.max(0, Math.ceil((away.nextAt - Date.now()) / 1000));
  return html`<div class="banner">
    <${Mark} tone="bad" />
    <p><span role="alert"><strong>${away.message}</strong> The numbers below are from before ${clock(away.since)}. </span><span class="num">Next try in ${duration(seconds)}.</span></p>
    <button type="button" onClick=${() => connection.probe()}>Try now</button>
  </div>`;
}
