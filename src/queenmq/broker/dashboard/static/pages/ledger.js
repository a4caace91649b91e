// The balance sheet: whatever was pushed is skipped, completed, dead, expired, leased or pending. Nothing is missing.
import { get } from "../api.js";
import { count, counted, groupName } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { replaceQuery, to } from "../router.js";
import { Badge, Empty, Header, Polled } from "../ui/parts.js";
import { Table } from "../ui/table.js";

const SECONDS = 5;
const PARTS = [
  ["skipped", "Skipped", "What lay before the place where the group began"],
  ["completed", "Completed", "Acknowledged"],
  ["deadLettered", "Dead", "Given up and kept as dead letters"],
  ["expired", "Expired", "Deleted or given up before the group got it"],
  ["leased", "Leased", "A consumer holds it now"],
  ["pending", "Pending", "Waits"],
];

/** Messages of a line that no part accounts for; more parts than messages count too. */
export const missing = (line) => line.pushed - PARTS.reduce((sum, [key]) => sum + line[key], 0);

const COLUMNS = [
  { key: "queue", label: "Queue", value: (row) => row.queue, cell: (row) => html`<a href=${to(["queues", row.queue])}>${row.queue}</a>` },
  { key: "group", label: "Group", value: (row) => row.group, cell: (row) => groupName(row.group) },
  { key: "pushed", label: "Pushed", num: true, value: (row) => row.pushed, cell: (row) => html`<strong>${count(row.pushed)}</strong>`, hint: "All messages ever pushed to the partitions that the group has reached" },
  ...PARTS.map(([key, label, hint]) => ({ key, label, hint, num: true, value: (row) => row[key], cell: (row) => count(row[key]) })),
  { key: "missing", label: "Missing", num: true, value: (row) => Math.abs(missing(row)), cell: (row) => count(missing(row)), hint: "Pushed, less all the others" },
  { key: "balanced", label: "Balance", hint: "In each of its partitions", value: (row) => row.balanced, cell: (row) => html`<${Badge} tone=${row.balanced ? "ok" : "bad"}>${row.balanced ? "balanced" : "not balanced"}<//>` },
];

export function Ledger({ query }) {
  const poll = usePoll((signal) => get("ledger", { signal }), [], SECONDS);
  return html`<${Header} title="Ledger" lead="For every group: pushed = skipped + completed + dead + expired + leased + pending." />
    <${Polled} poll=${poll}>${(lines) => html`<${Sheet} lines=${lines} search=${(query.search ?? "").toLowerCase()} />`}<//>`;
}

function Sheet({ lines, search }) {
  if (lines.length === 0) return html`<${Empty} command="queen pop orders --group billing">The ledger has a line for each group on each queue, and no group has read anything yet.<//>`;
  const wrong = lines.filter((line) => !line.balanced || missing(line) !== 0);
  const total = lines.reduce((sum, line) => sum + Math.abs(missing(line)), 0);
  const shown = lines.filter((line) => `${line.queue} ${groupName(line.group)}`.toLowerCase().includes(search));
  return html`<div class=${`verdict ${wrong.length ? "bad" : "ok"}`} role="status">
      <span class="big num">${count(total)}</span>
      <span>messages missing${wrong.length ? html`<br />${counted(wrong.length, "line does", "lines do")} not balance. <code>queen verify</code> names the partitions.` : html`<br />${counted(lines.length, "line")}, all balanced in each partition.`}</span>
    </div>
    <div class="filters" role="search">
      <label class="field inline"><span class="off-screen">Search the ledger</span><input type="search" placeholder="Search by queue or group" value=${search} onInput=${(e) => replaceQuery({ search: e.target.value })} /></label>
    </div>
    <${Table} label="Ledger, in messages" columns=${COLUMNS} rows=${shown} id=${(row) => `${row.queue}\n${row.group}`} start="queue" tone=${(row) => (row.balanced ? "" : "bad")} />
    <p class="note">All numbers are messages. Skipped is what lay before the place where a group began, or was moved to.</p>`;
}
