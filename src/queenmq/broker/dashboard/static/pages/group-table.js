// Groups as lines of a table: lag, speed, who holds leases; seek and forget.
import { address, remove } from "../api.js";
import { count, counted, duration, groupName, time } from "../format.js";
import { html } from "../html.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { fall, secondsToCatchUp } from "../speed.js";
import { Confirm, OpenDialog } from "../ui/dialog.js";
import { say } from "../ui/notices.js";
import { Badge } from "../ui/parts.js";
import { Table } from "../ui/table.js";
import { PauseButton, Paused } from "./pause.js";
import { Seek } from "./seek.js";

const STATES = {
  Stable: ["ok", "stable", "No message waits for longer than five minutes."],
  Lagging: ["warn", "lagging", "The oldest unfinished message is older than five minutes."],
  Dead: ["bad", "never served", "Messages wait, and no consumer has got one yet."],
};
const MODES = { all: "everything", new: "what is new" };

/** `within` a queue: then the queue is not a column. */
export function GroupTable({ groups, refresh, within }) {
  const columns = [
    { key: "name", label: "Group", value: (row) => row.name, cell: (row) => html`<a href=${to(["queues", row.queueName], { tab: "partitions", group: row.name })}>${groupName(row.name)}</a>` },
    !within && { key: "queue", label: "Queue", value: (row) => row.queueName, cell: (row) => html`<a href=${to(["queues", row.queueName])}>${row.queueName}</a>` },
    { key: "state", label: "State", value: (row) => row.state, cell: State },
    { key: "lag", label: "Lag, messages", num: true, value: (row) => row.totalLag, cell: (row) => count(row.totalLag), hint: "Messages it has yet to finish" },
    { key: "age", label: "Oldest", num: true, value: (row) => row.maxTimeLag, cell: (row) => (row.totalLag ? duration(row.maxTimeLag) : "–"), hint: "Age of the oldest of them" },
    { key: "end", label: "Caught up", num: true, value: secondsToCatchUp, cell: CatchUp, hint: "From how its lag changed while this page was open" },
    { key: "partitions", label: "Partitions", num: true, value: (row) => row.partitionsWithLag, cell: (row) => count(row.partitionsWithLag), hint: "Partitions in which it is behind" },
    { key: "leases", label: "Leases", num: true, value: (row) => row.members, cell: (row) => count(row.members), hint: "Leases that consumers hold now" },
    { key: "reads", label: "Reads", value: (row) => row.subscriptionMode, cell: Subscription, hint: "The subscription that decides where it starts in a new partition" },
    refresh && may("admin") && { key: "actions", label: "Change", cell: (row) => html`<${Actions} row=${row} refresh=${refresh} />` },
  ].filter(Boolean);
  return html`<${Table} label="Consumer groups" columns=${columns} rows=${groups} id=${(row) => `${row.queueName}\n${row.name}`} start="-lag" />`;
}

function State(row) {
  const [tone, word, title] = STATES[row.state] ?? ["", row.state, ""];
  return html`<${Badge} tone=${tone} title=${title}>${word}<//>${row.paused && html` <${Paused} />`}`;
}

function CatchUp(row) {
  const seconds = secondsToCatchUp(row);
  if (seconds === 0) return "now";
  if (seconds === null) return "–";
  return seconds === Infinity ? (fall(row) < 0 ? "lag grows" : "not moving") : `in ${duration(seconds)}`;
}

function Subscription(row) {
  const since = row.subscriptionTimestamp;
  return html`<span title=${`Subscribed ${time(row.subscriptionCreatedAt)}`}>${MODES[row.subscriptionMode] ?? row.subscriptionMode}${since ? ` since ${time(since)}` : ""}</span>`;
}

const Actions = ({ row, refresh }) => {
  const name = `${groupName(row.name)} on ${row.queueName}`;
  return html`<span class="row-actions">
    <${OpenDialog} label="Seek …" name=${`Seek ${name}`} dialog=${(close) => html`<${Seek} group=${row.name} queue=${row.queueName} lag=${row.totalLag} close=${close} done=${refresh} />`} />
    <${PauseButton} queue=${row.queueName} group=${row.name} paused=${row.paused} done=${refresh} />
    <${OpenDialog} label="Forget …" name=${`Forget ${name}`} dialog=${(close) => html`<${Forget} row=${row} close=${close} done=${refresh} />`} />
  </span>`;
};

function Forget({ row, close, done }) {
  async function run() {
    await remove(address("consumer-groups", row.name, "queues", row.queueName));
    say(`${groupName(row.name)} is forgotten on ${row.queueName}.`);
    done();
  }
  return html`<${Confirm} title=${`Forget ${groupName(row.name)} on ${row.queueName}?`} verb="Forget it" run=${run} close=${close}>
    <p>Its place in the queue and its subscription are deleted, and its leases end. If its consumers still run, their next pop begins a new group, which may read everything again.</p>
    <p>It has ${counted(row.totalLag, "unfinished message")}.</p>
  <//>`;
}
