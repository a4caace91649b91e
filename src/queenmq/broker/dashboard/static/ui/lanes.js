// The partitions of a queue as a strip of cells: which ones wait, are leased, are tried again or are stuck.
import { useEffect, useRef, useState } from "preact/hooks";

import { count, counted } from "../format.js";
import { html } from "../html.js";
import { theme } from "../theming.js";

const CELL = 13; // pixels, with the gap
const GAP = 2;

// Each state with the name of its colour; what is worst is named first.
export const STATES = [
  ["stuck", "stuck", "bad", (row) => row.cause === "poison" || row.cause === "too_old"],
  ["retrying", "retrying", "warn", (row) => row.cause === "retrying" || (row.failures > 0 && row.cause !== "leased")],
  ["leased", "leased", "info", (row) => row.cause === "leased"],
  ["waiting", "waiting", "first", (row) => row.cause === "ready"],
  ["later", "waiting for a time", "third", (row) => ["delayed", "debounced", "subscribed_later", "not_reached"].includes(row.cause)],
  ["idle", "idle", "line", () => true],
];
const stateOf = (row) => STATES.find(([, , , is]) => is(row));

/** rows: reasons of queen.why, one for each partition. `open(row)` is called for the cell that a person chooses. */
export function Lanes({ rows, total, open }) {
  const frame = useRef();
  const canvas = useRef();
  const [at, setAt] = useState(null);
  const [width, setWidth] = useState(0);
  const colours = theme.use();
  const columns = Math.max(1, Math.floor((width + GAP) / CELL));
  const counts = STATES.map(([key, label, tone]) => ({ key, label, tone, count: rows.filter((row) => stateOf(row)[0] === key).length }));
  const most = Math.max(1, ...rows.map((row) => row.messages ?? 0));

  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const lines = Math.ceil(rows.length / columns);
    const scale = devicePixelRatio || 1;
    const element = canvas.current;
    element.width = width * scale;
    element.height = (lines * CELL - GAP) * scale;
    element.style.height = `${lines * CELL - GAP}px`;
    const pen = element.getContext("2d");
    pen.scale(scale, scale);
    rows.forEach((row, n) => {
      // Fuller partitions are stronger: the colour is the state, its strength is the backlog.
      pen.globalAlpha = stateOf(row)[0] === "idle" ? 1 : 0.45 + 0.55 * Math.sqrt((row.messages ?? 0) / most);
      pen.fillStyle = colours[stateOf(row)[2]];
      pen.fillRect((n % columns) * CELL, Math.floor(n / columns) * CELL, CELL - GAP, CELL - GAP);
    });
  }, [rows, colours, columns, width]);

  const find = (event) => {
    const place = Math.floor(event.offsetY / CELL) * columns + Math.floor(event.offsetX / CELL);
    return event.offsetX < columns * CELL && rows[place] ? rows[place] : null;
  };
  const told = counts.filter((each) => each.count).map((each) => `${count(each.count)} ${each.label}`).join(", ");
  return html`<figure class="lanes">
    <figcaption>${counts.map((each) => html`<span class="legend"><span class=${`cell ${each.tone}`}></span>${each.label} <span class="num">${count(each.count)}</span></span>`)}</figcaption>
    <div ref=${frame}><canvas ref=${canvas} role="img" aria-label=${`${counted(rows.length, "partition")}: ${told}. The table below has all of them.`}
      onMouseMove=${(event) => setAt(find(event))} onMouseLeave=${() => setAt(null)} onClick=${(event) => find(event) && open(find(event))}></canvas></div>
    <p class="readout num">${at ? html`<strong>${at.partition}</strong> · ${counted(at.messages ?? 0, "message")} · ${at.explanation}` : total > rows.length ? `The ${count(rows.length)} partitions with work, of ${count(total)}.` : "Each cell is a partition; a stronger colour means a larger backlog."}</p>
  </figure>`;
}
