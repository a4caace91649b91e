// Lines over time with axes, a legend and, behind a button, the same numbers as a table.
import { useEffect, useRef, useState } from "preact/hooks";
import UPlot from "uplot";

import { html } from "../html.js";
import { theme } from "../theming.js";
import { Table } from "./table.js";

const HEIGHT = 180;
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/**
 * steps: [{ timestamp, … }]; lines: [{ key, label, tone, fill, dash }]; `show` writes a value with its unit.
 * A value that nobody counted is a gap in the line and a dash in the table.
 */
export function Chart({ title, steps, lines, show, note }) {
  const [asTable, setTable] = useState(false);
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      ${lines.map((line) => html`<span class="legend"><span class=${`swatch ${line.tone} ${line.dash ? "dash" : ""}`}></span>${line.label}</span>`)}
      <button type="button" class="quiet" aria-pressed=${asTable} onClick=${() => setTable(!asTable)}>${asTable ? "Chart" : "Table"}</button>
    </figcaption>
    ${asTable
      ? html`<${Numbers} title=${title} steps=${steps} lines=${lines} show=${show} />`
      : html`<${Lines} title=${title} steps=${steps} lines=${lines} show=${show} />`}
    ${note && html`<p class="note">${note}</p>`}
  </figure>`;
}

function Numbers({ title, steps, lines, show }) {
  const columns = [
    { key: "timestamp", label: "Minute", cell: (row) => clock.format(new Date(row.timestamp)), value: (row) => row.timestamp },
    ...lines.map((line) => ({ key: line.key, label: line.label, num: true, cell: (row) => show(row[line.key]), value: (row) => row[line.key] })),
  ];
  return html`<${Table} label=${title} columns=${columns} rows=${steps} id=${(row) => row.timestamp} start="-timestamp" size=${10} />`;
}

function Lines({ title, steps, lines, show }) {
  const frame = useRef();
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const colours = theme.use();
  const data = [steps.map((step) => new Date(step.timestamp) / 1000), ...lines.map((line) => steps.map((step) => step[line.key]))];

  useEffect(() => {
    const made = new UPlot(options(frame.current, lines, show, colours, setAt), data, frame.current);
    plot.current = made;
    const observer = new ResizeObserver(([{ contentRect }]) => contentRect.width > 0 && made.setSize({ width: Math.floor(contentRect.width), height: HEIGHT }));
    observer.observe(frame.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [colours, lines.map((line) => line.key).join()]);
  useEffect(() => plot.current?.setData(data), [steps]);

  const last = at ?? lastKnown(steps, lines);
  const told = last === null ? "" : lines.map((line) => `${line.label}: ${show(steps[last]?.[line.key])}`).join(", ");
  return html`<div class="plot" ref=${frame} role="img" aria-label=${`${title} over time. Latest: ${told}. The button “Table” shows all numbers.`}></div>
    <p class="readout num">${last === null ? "Nothing was counted in this time." : html`${clock.format(new Date(steps[last]?.timestamp))} · ${told}`}</p>`;
}

function lastKnown(steps, lines) {
  for (let at = steps.length - 1; at >= 0; at--) if (lines.some((line) => steps[at][line.key] !== null)) return at;
  return null;
}

function options(element, lines, show, colours, setAt) {
  const grid = { stroke: colours.line, width: 1 };
  const axis = { stroke: colours.muted, grid, ticks: { show: false }, font: `11px ${colours.font}` };
  return {
    width: Math.max(200, Math.floor(element.clientWidth)),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, size: 30, values: (_plot, moments) => moments.map((moment) => clock.format(new Date(moment * 1000))), space: 70 },
      { ...axis, values: (_plot, values) => values.map(show), size: 68, space: 26 },
    ],
    hooks: { setCursor: [(made) => setAt(made.cursor.idx ?? null)] },
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colours[line.tone],
        fill: line.fill ? colours[`${line.tone}Wash`] : undefined,
        width: 1.75,
        dash: line.dash ? [5, 4] : undefined,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}
