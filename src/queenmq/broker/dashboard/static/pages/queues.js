// Every queue, read or not.
import { get, query, send } from "../api.js";
import { count, counted, duration, rate } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { replaceQuery, to } from "../router.js";
import { may } from "../session.js";
import { secondsToCatchUp, watch } from "../speed.js";
import { OpenDialog } from "../ui/dialog.js";
import { Badge, Empty, Header, Polled } from "../ui/parts.js";
import { SavedFilters } from "../ui/saved.js";
import { Table } from "../ui/table.js";
import { Paused } from "./pause.js";
import { CreateQueue } from "./queue-create.js";

const SECONDS = 5;
const PAGE = 1_000;
const QUEUES_MAX = 5_000; // more are found by a search

const FILTERS = {
  "": ["All queues", () => true],
  backlog: ["With a backlog", (row) => row.pending > 0],
  unread: ["Read by no group", (row) => row.unread !== null],
  lagging: ["Behind for over a minute", (row) => row.oldest > 60],
  dead: ["With dead letters", (row) => row.dead > 0],
  retrying: ["Retrying", (row) => row.retrying > 0],
  paused: ["Paused", (row) => row.paused],
};

/** All queues with what groups and counts know of them. */
async function load(signal) {
  const options = { signal };
  const [first, groups, unread, rates] = await Promise.all([
    get(`resources/queues${query({ limit: PAGE })}`, options),
    get("consumer-groups", options),
    get("unread", options),
    send("GET", "dashboard/rates", undefined, options),
  ]);
  const queues = [...first.queues];
  for (let offset = PAGE; offset < Math.min(first.total, QUEUES_MAX); offset += PAGE)
    queues.push(...(await get(`resources/queues${query({ limit: PAGE, offset })}`, options)).queues);
  watch(groups);
  const groupsOf = Map.groupBy(groups, (group) => group.queueName);
  const unreadOf = new Map(unread.map((line) => [line.queue, line]));
  const ratesOf = new Map(rates.map((line) => [line.queue, line]));
  return { total: first.total, rows: queues.map((queue) => row(queue, groupsOf.get(queue.name) ?? [], unreadOf.get(queue.name) ?? null, ratesOf.get(queue.name))) };
}

function row(queue, groups, unread, rates) {
  const behind = groups.filter((group) => group.totalLag > 0);
  const ages = [...behind.map((group) => group.maxTimeLag), ...(unread ? [unread.seconds] : [])];
  const waits = behind.map(secondsToCatchUp);
  return {
    name: queue.name,
    paused: queue.paused,
    labels: [queue.namespace, queue.task].filter(Boolean).join(" · "),
    in: rates?.pushedPerSecond ?? null,
    out: rates?.completedPerSecond ?? null,
    pending: queue.messages.pending,
    leased: queue.messages.processing,
    retrying: queue.messages.failed,
    dead: queue.messages.deadLetter,
    oldest: ages.length ? Math.max(...ages) : null,
    groups,
    behind,
    unread,
    partitions: queue.partitions,
    catchUp: waits.length === 0 || waits.includes(null) ? null : Math.max(...waits),
  };
}

const COLUMNS = [
  { key: "name", label: "Queue", value: (row) => row.name, cell: (row) => html`<a href=${to(["queues", row.name])}>${row.name}</a>${row.paused && html` <${Paused} />`}${row.labels && html`<span class="note under">${row.labels}</span>`}` },
  { key: "in", label: "In", num: true, value: (row) => row.in, cell: (row) => rate(row.in), hint: "Messages pushed per second, in the last counted minute" },
  { key: "out", label: "Out", num: true, value: (row) => row.out, cell: (row) => rate(row.out), hint: "Messages finished per second, in the last counted minute" },
  { key: "pending", label: "Backlog", num: true, value: (row) => row.pending, cell: (row) => count(row.pending), hint: "Messages that the slowest group has yet to take" },
  { key: "oldest", label: "Oldest", num: true, value: (row) => row.oldest, cell: (row) => duration(row.oldest), hint: "Age of the oldest message that some group has not finished" },
  { key: "groups", label: "Groups", value: (row) => row.behind.length, cell: Groups, hint: "Consumer groups, and how many of them are behind" },
  { key: "leased", label: "Leased", num: true, value: (row) => row.leased, cell: (row) => count(row.leased), hint: "Messages that consumers hold" },
  { key: "dead", label: "Dead", num: true, value: (row) => row.dead, cell: (row) => (row.dead ? html`<a href=${to(["dead-letters"], { queue: row.name })}>${count(row.dead)}</a>` : "0"), hint: "Dead letters" },
  { key: "partitions", label: "Partitions", num: true, value: (row) => row.partitions, cell: (row) => count(row.partitions) },
];

function Groups(row) {
  if (row.unread) return html`<${Badge} tone="warn">unread<//>`;
  if (row.groups.length === 0) return html`<span class="note">none</span>`;
  if (row.behind.length === 0) return html`<${Badge} tone="ok">${counted(row.groups.length, "group")}, all read<//>`;
  const end = row.catchUp === Infinity ? "not catching up" : row.catchUp === null ? "" : `done in ${duration(row.catchUp)}`;
  return html`${row.behind.length} of ${row.groups.length} behind${end && html`<span class="note under">${end}</span>`}`;
}

export function Queues({ query: asked }) {
  const poll = usePoll(load, [], SECONDS);
  const search = (asked.search ?? "").toLowerCase();
  const filter = FILTERS[asked.filter] ? asked.filter : "";
  return html`<${Header} title="Queues">
      ${may("admin") && html`<${OpenDialog} label="Create a queue" dialog=${(close) => html`<${CreateQueue} close=${close} done=${poll.refresh} />`} />`}
    <//>
    <div class="filters" role="search">
      <label class="field inline"><span class="off-screen">Search queues</span><input type="search" placeholder="Search by name, namespace or task" value=${asked.search ?? ""} onInput=${(e) => replaceQuery({ search: e.target.value })} /></label>
      <label class="field inline"><span class="off-screen">Show</span><select value=${filter} onChange=${(e) => replaceQuery({ filter: e.target.value })}>
        ${Object.entries(FILTERS).map(([key, [label]]) => html`<option value=${key}>${label}</option>`)}
      </select></label>
      <${SavedFilters} place="queues" query=${asked} />
    </div>
    <${Polled} poll=${poll}>${(data) => html`<${List} data=${data} search=${search} filter=${filter} />`}<//>`;
}

function List({ data, search, filter }) {
  if (data.total === 0) return html`<${Empty} command="queen push orders '{"id": 1}'">There is no queue yet. The first push to a name creates it.<//>`;
  const rows = data.rows.filter((row) => FILTERS[filter][1](row) && (!search || `${row.name} ${row.labels}`.toLowerCase().includes(search)));
  if (rows.length === 0) return html`<${Empty} command="queen queues">None of the ${counted(data.total, "queue")} is like this.<//>`;
  return html`<p class="note num">${counted(rows.length, "queue")}${rows.length < data.total ? ` of ${count(data.total)}` : ""}${data.total > QUEUES_MAX ? `; the first ${count(QUEUES_MAX)} are looked at` : ""}. Rates are messages of the last counted minute; backlog, leased and dead count messages.</p>
    <${Table} label="Queues" columns=${COLUMNS} rows=${rows} id=${(row) => row.name} start="name" tone=${(row) => (row.unread ? "warn" : "")} />`;
}
