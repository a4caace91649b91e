// Small pieces that every page is made of.
import { useEffect, useReducer, useState } from "preact/hooks";

import { ago, clock, time } from "../format.js";
import { html } from "../html.js";

/** A title with what can be done on the page. The title gets the focus when the page opens. */
export function Header({ title, crumbs = [], lead, children }) {
  useEffect(() => {
    document.title = `${title} · Queen`;
  }, [title]);
  return html`<header class="page-head">
    <div>
      ${crumbs.length > 0 &&
      html`<nav class="crumbs" aria-label="Where this page is">${crumbs.map(([text, href]) => html`<a href=${href}>${text}</a><span aria-hidden="true">/</span>`)}</nav>`}
      <h1 tabindex="-1" id="title">${title}</h1>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    <div class="actions">${children}</div>
  </header>`;
}

export function Section({ title, note, actions, children, id }) {
  return html`<section class="section" aria-label=${title} id=${id}>
    <div class="section-head"><h2>${title}</h2>${note && html`<span class="note">${note}</span>`}<div class="actions">${actions}</div></div>
    ${children}
  </section>`;
}

/** One number with its unit and its meaning. `tone`: ok, warn or bad, where the number means that. */
export function Stat({ label, value, unit, note, tone, href, title }) {
  return html`<div class=${`stat ${tone ?? ""}`} title=${title}>
    <dt>${href ? html`<a href=${href}>${label}</a>` : label}</dt>
    <dd class="num">${value}${unit && html`<span class="unit"> ${value === "1" ? unit.replace(/s$/, "") : unit}</span>`}</dd>
    ${note && html`<dd class="note">${note}</dd>`}
  </div>`;
}

export const Stats = ({ children, label }) => html`<dl class="stats" aria-label=${label}>${children}</dl>`;

/** A state in a word. The colour says the same once more. */
export const Badge = ({ tone = "", children, title }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

const MARKS = { ok: "✓", warn: "!", bad: "✕", info: "i" };
export const Mark = ({ tone }) => html`<span class=${`mark ${tone}`} aria-hidden="true">${MARKS[tone]}</span>`;

/** Nothing is here: a sentence, and the command that changes that. */
export function Empty({ children, command }) {
  return html`<div class="empty"><p>${children}</p>${command && html`<${Command} text=${command} />`}</div>`;
}

/** A failure is shown as one. Numbers beside it are from before, and say so. */
export function Failure({ error, at, retry }) {
  return html`<div class="failure" role="alert">
    <${Mark} tone="bad" />
    <div>
      <p><strong>${error.message}</strong> ${error.hint}</p>
      ${at && html`<p class="note">What you see is from ${clock(at)}.</p>`}
    </div>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

export const Loading = () => html`<p class="loading" role="status">Loading …</p>`;

/** What a poll has found: the failure if there is one, what it knows, or that it is on its way. */
export function Polled({ poll, children }) {
  return html`${poll.error && html`<${Failure} error=${poll.error} at=${poll.at} retry=${poll.refresh} />`}
  ${poll.data !== undefined ? children(poll.data) : !poll.error && html`<${Loading} />`}`;
}

/** How long ago something was; the moment itself on demand. It counts on by itself. */
export function Ago({ moment }) {
  const [, tick] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, 10_000);
    return () => clearInterval(timer);
  }, []);
  return moment ? html`<time datetime=${moment} title=${time(moment)}>${ago(moment)}</time>` : "–";
}

export function Copy({ text, label = "Copy" }) {
  const [done, set] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => set(false), 2_000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => copyText(text).then(() => set(true));
  return html`<button type="button" class="quiet" onClick=${copy}><span aria-live="polite">${done ? "Copied" : label}</span></button>`;
}

/** Without TLS on another machine a browser has no clipboard: then an invisible field does it. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "off-screen" });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Command({ text }) {
  return html`<div class="command"><code>${text}</code><${Copy} text=${text} /></div>`;
}

export const Json = ({ value }) => html`<pre class="json" tabindex="0" aria-label="JSON">${JSON.stringify(value, null, 2)}</pre>`;

export function Tabs({ label, tabs, current, href }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([key, text]) => html`<a href=${href(key)} aria-current=${key === current ? "page" : undefined}>${text}</a>`)}
  </nav>`;
}
