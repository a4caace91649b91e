// The partitions of a queue, and for each a sentence that says why a group gets nothing from it now.
import { address, get, query } from "../api.js";
import { count, counted, duration, groupName, QUEUE_MODE, secondsSince } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { go, replaceQuery, to } from "../router.js";
import { Lanes } from "../ui/lanes.js";
import { Badge, Empty, Polled, Section } from "../ui/parts.js";
import { Table } from "../ui/table.js";

const SECONDS = 5;
const PARTITIONS_MAX = 1_000;

const CAUSES = {
  ready: ["ok", "ready"],
  read: ["ok", "all read"],
  empty: ["", "empty"],
  leased: ["info", "leased"],
  delayed: ["info", "delayed"],
  debounced: ["info", "debounced"],
  retrying: ["warn", "retrying"],
  poison: ["bad", "poison"],
  too_old: ["warn", "too old"],
  subscribed_later: ["", "subscribed later"],
  not_reached: ["info", "not reached"],
};

const columnsOf = (queue) => [
  { key: "partition", label: "Partition", value: (row) => row.partition, cell: (row) => html`<a href=${to(["queues", queue, "partitions", row.partition])}>${row.partition}</a>` },
  { key: "cause", label: "State", value: (row) => row.cause, cell: Cause },
  { key: "messages", label: "Waiting", num: true, value: (row) => row.messages, cell: (row) => count(row.messages), hint: "Messages that the cause is about" },
  { key: "offset", label: "From offset", num: true, value: (row) => row.offset, cell: (row) => count(row.offset) },
  { key: "failures", label: "Failures", num: true, value: (row) => row.failures, cell: (row) => count(row.failures), hint: "How often its next message has failed" },
  { key: "until", label: "Ends in", num: true, value: (row) => row.until, cell: (row) => (row.until ? duration(-Math.min(0, (Date.now() - new Date(row.until)) / 1000)) : "–"), hint: "When this ends by itself" },
  { key: "why", label: "Why", wide: true, cell: (row) => row.explanation },
];

export function Cause(row) {
  const [tone, word] = CAUSES[row.cause] ?? ["", row.cause];
  return html`<${Badge} tone=${tone}>${word}<//>`;
}

export function Partitions({ queue, groups = [], group, total, order }) {
  const names = groups.map((each) => each.name);
  const chosen = group ?? names.toSorted((a, b) => (a === QUEUE_MODE) - (b === QUEUE_MODE))[0] ?? null;
  if (chosen === null) return html`<${Plain} queue=${queue} />`;
  return html`<div class="filters">
      <label class="field inline">As the group <select value=${chosen} onChange=${(e) => replaceQuery({ group: e.target.value })}>
        ${[...new Set([...names, chosen])].map((name) => html`<option value=${name}>${groupName(name)}</option>`)}
      </select></label>
      <label class="field inline">Order <select value=${ORDERS[order] ? order : ""} onChange=${(e) => replaceQuery({ order: e.target.value })}>
        ${Object.entries(ORDERS).map(([key, [label]]) => html`<option value=${key}>${label}</option>`)}
      </select></label>
    </div>
    <${Why} key=${chosen} queue=${queue} group=${chosen} total=${total} order=${ORDERS[order] ?? ORDERS[""]} />`;
}

// Lanes and table begin with these; without a choice, with what is ready for longest.
const ORDERS = {
  "": ["Ready for longest", () => 0],
  fullest: ["Fullest", (a, b) => b.messages - a.messages],
  failing: ["Failing most often", (a, b) => b.failures - a.failures],
  name: ["By name", (a, b) => a.partition.localeCompare(b.partition, "en", { numeric: true })],
};

function Why({ queue, group, total, order }) {
  const poll = usePoll((signal) => get(`why/${address(queue)}${query({ group, limit: PARTITIONS_MAX })}`, { signal }), [queue, group], SECONDS);
  return html`<${Polled} poll=${poll}>
    ${(reasons) => {
      const whole = reasons.filter((reason) => reason.partition === null);
      const rows = reasons.filter((reason) => reason.partition !== null).sort(order[1]);
      return html`${whole.map((reason) => html`<p class="remark warn">${reason.explanation}</p>`)}
        ${rows.length > 0
          ? html`<${Lanes} rows=${rows} total=${total} open=${(row) => go(["queues", queue, "partitions", row.partition])} />
              <p class="note num">${counted(rows.length, "partition")}${rows.length === PARTITIONS_MAX ? ", those with work first; there may be more" : ""}.</p>
              <${Table} label=${`Partitions of ${queue} as ${groupName(group)} sees them`} columns=${columnsOf(queue)} rows=${rows} id=${(row) => row.partition} />`
          : whole.length === 0 && html`<${Empty} command=${`queen push ${queue} '{"id": 1}'`}>The queue has no partition yet. The first push creates one.<//>`}`;
    }}
  <//>`;
}

/** Without a group there is no why: what is stored. */
function Plain({ queue }) {
  const poll = usePoll((signal) => get(`resources/partitions${query({ queue, limit: PARTITIONS_MAX })}`, { signal }), [queue], SECONDS);
  const columns = [
    columnsOf(queue)[0],
    { key: "stored", label: "Stored", num: true, value: (row) => row.messages.total, cell: (row) => counted(row.messages.total, "message") },
    { key: "pushed", label: "Pushed ever", num: true, value: (row) => row.pushed, cell: (row) => counted(row.pushed, "message") },
    { key: "last", label: "Last push", num: true, value: (row) => row.lastMessageAt, cell: (row) => (row.lastMessageAt ? `${duration(Math.floor(secondsSince(row.lastMessageAt)))} ago` : "–") },
  ];
  return html`<${Section} title="Partitions" note="no group reads this queue, so nothing is said about who is behind">
    <${Polled} poll=${poll}>
      ${({ partitions, nextCursor }) =>
        partitions.length === 0
          ? html`<${Empty} command=${`queen push ${queue} '{"id": 1}'`}>The queue has no partition yet. The first push creates one.<//>`
          : html`<p class="note num">${counted(partitions.length, "partition")}${nextCursor ? "; there are more" : ""}.</p>
              <${Table} label=${`Partitions of ${queue}`} columns=${columns} rows=${partitions.map((row) => ({ ...row, partition: row.name }))} id=${(row) => row.id} />`}
    <//>
  <//>`;
}
