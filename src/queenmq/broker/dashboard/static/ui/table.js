// A table that sorts, pages and stays readable on a phone, where each row becomes a card.
import { useState } from "preact/hooks";

import { count } from "../format.js";
import { html } from "../html.js";

const ROWS = 50; // on a page: a thousand rows stay smooth, and the address of the page stays short

/**
 * columns: [{ key, label, cell(row), value(row) to sort by, num: whether it is a number, hint }]
 * rows: all of them; `id(row)` names one. `start`: the key that the table is sorted by at first, "-key" for the largest first.
 */
export function Table({ label, columns, rows, id, start, size = ROWS, tone }) {
  const [sort, setSort] = useState(start ?? "");
  const [page, setPage] = useState(0);
  const sorted = order(rows, columns, sort);
  const pages = Math.max(1, Math.ceil(sorted.length / size));
  const current = Math.min(page, pages - 1);
  const shown = sorted.slice(current * size, (current + 1) * size);
  const choose = (column) => {
    const [key, first] = [column.key, column.num ? `-${column.key}` : column.key];
    setSort(sort === first ? (first === key ? `-${key}` : key) : first);
    setPage(0);
  };
  return html`<div class="table-frame">
    <table>
      <caption class="off-screen">${label}</caption>
      <thead>
        <tr>${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} choose=${choose} />`)}</tr>
      </thead>
      <tbody>
        ${shown.map(
          (row) => html`<tr key=${id(row)} class=${tone?.(row)}>
            ${columns.map((column, at) => {
              const tag = at === 0 ? "th" : "td";
              return html`<${tag} scope=${at === 0 ? "row" : undefined} class=${column.num ? "num" : column.wide ? "wide" : ""} data-label=${column.label}>${column.cell(row)}</${tag}>`;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
    ${pages > 1 && html`<${Pages} label=${label} from=${current * size} shown=${shown.length} total=${sorted.length} current=${current} pages=${pages} go=${setPage} />`}
  </div>`;
}

function Head({ column, sort, choose }) {
  const direction = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : undefined;
  const arrow = direction === "ascending" ? "↑" : direction === "descending" ? "↓" : "";
  return html`<th scope="col" class=${column.num ? "num" : ""} aria-sort=${direction} title=${column.hint}>
    ${column.value
      ? html`<button type="button" class="sort" onClick=${() => choose(column)}>${column.label}<span class="arrow" aria-hidden="true">${arrow}</span></button>`
      : column.label}
  </th>`;
}

function Pages({ label, from, shown, total, current, pages, go }) {
  return html`<div class="pages">
    <span class="num" role="status">${count(from + 1)} to ${count(from + shown)} of ${count(total)}</span>
    <button type="button" disabled=${current === 0} onClick=${() => go(current - 1)} aria-label=${`Back: ${label}`}>Back</button>
    <button type="button" disabled=${current === pages - 1} onClick=${() => go(current + 1)} aria-label=${`Next: ${label}`}>Next</button>
  </div>`;
}

function order(rows, columns, sort) {
  const down = sort.startsWith("-");
  const column = columns.find((each) => each.key === sort.replace(/^-/, ""));
  if (!column?.value) return rows;
  const keyed = rows.map((row) => [column.value(row), row]);
  // What is not known comes last, whichever way the rest goes.
  keyed.sort(([a], [b]) => {
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    const way = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a < b ? -1 : 1;
    return down ? -way : way;
  });
  return keyed.map(([, row]) => row);
}
