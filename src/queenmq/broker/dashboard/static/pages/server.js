// The server that answers, its PostgreSQL, and what looks wrong with them.
import { get, post, send } from "../api.js";
import { bytes, count, counted, duration, percent } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { may } from "../session.js";
import { Confirm, OpenDialog } from "../ui/dialog.js";
import { say } from "../ui/notices.js";
import { Ago, Badge, Header, Mark, Polled, Section, Stat, Stats } from "../ui/parts.js";
import { Table } from "../ui/table.js";

const SECONDS = 5;
const RARELY = 60;
const TONES = { ok: "ok", warning: "warn", problem: "bad" };

export function Server() {
  const machine = usePoll((signal) => get("analytics/system-metrics", { signal }), [], SECONDS);
  const metrics = usePoll((signal) => send("GET", "metrics", undefined, { signal }), [], SECONDS);
  const postgres = usePoll((signal) => get("analytics/postgres-stats", { signal }), [], SECONDS);
  const push = usePoll((signal) => get("system/maintenance", { signal }), [], SECONDS);
  const pop = usePoll((signal) => get("system/maintenance/pop", { signal }), [], SECONDS);
  const doctor = usePoll((signal) => (may("admin") ? get("doctor", { signal }) : null), [], RARELY);
  return html`<${Header} title="Server" lead="The server that answers this page. Behind a load balancer, the next answer may come from another one." />
    <${Polled} poll=${machine}>${(data) => html`<${Polled} poll=${metrics}>${(numbers) => html`<${Process} machine=${data} metrics=${numbers} />`}<//>`}<//>
    <${Section} title="Maintenance" note="counts for all servers of this database">
      <${Polled} poll=${push}>${(data) => html`<${Switch} path="system/maintenance" data=${data} what="Pushes" on="are kept in the spool" verb="Keep pushes back" refresh=${push.refresh}
        note="Servers answer “buffered” and store the messages when maintenance ends. Without a spool they refuse pushes." spool=${data} />`}<//>
      <${Polled} poll=${pop}>${(data) => html`<${Switch} path="system/maintenance/pop" data=${data} what="Deliveries" on="are paused" verb="Pause deliveries" refresh=${pop.refresh}
        note="Consumers get nothing until deliveries are resumed. What they hold they can finish." />`}<//>
    <//>
    <${Section} title="Checks" note="what queen doctor finds">
      <${Polled} poll=${doctor}>${(data) => (data === null ? html`<p class="note">These need the role admin.</p>` : html`<${Checks} checks=${data.checks} />`)}<//>
    <//>
    <${Section} title="PostgreSQL"><${Polled} poll=${postgres}>${(data) => html`<${Postgres} ...${data} />`}<//><//>
    <${Section} title="Requests" note="since this server started, all its processes"><${Polled} poll=${metrics}>${(data) => html`<${Requests} requests=${data.requests} />`}<//><//>`;
}

function Process({ machine, metrics }) {
  const [one, five] = machine.loadAverage;
  const looked = metrics.segmentCache.hits + metrics.segmentCache.misses;
  return html`<${Stats} label="This server">
    <${Stat} label="Runs since" value=${duration(Math.floor(machine.uptimeSeconds))} note=${counted(metrics.workers, "worker process", "worker processes")} />
    <${Stat} label="Load" value=${one.toFixed(2)} unit=${`of ${machine.cpus} cores`} note=${`${five.toFixed(2)} over 5 minutes`} tone=${one > 2 * machine.cpus ? "warn" : ""} />
    <${Stat} label="Memory" value=${bytes(machine.peakMemoryBytes)} note="at most, of one worker" />
    <${Stat} label="Processor time" value=${duration(machine.cpuSeconds)} note="of one worker" />
    <${Stat} label="Parked polls" value=${count(metrics.polls.parked)} unit="polls" note="wait for a message" />
    <${Stat} label="In flight" value=${count(metrics.requestsInFlight)} unit="requests" note="with parked polls" />
    <${Stat} label="Cache" value=${looked ? percent(metrics.segmentCache.hits / looked) : "–"} note="of reads need no database call" />
    <${Stat} label="Spool" value=${metrics.spool ? count(metrics.spool.messages) : "–"} unit=${metrics.spool ? "messages" : ""} tone=${metrics.spool?.messages ? "warn" : ""} note=${metrics.spool ? `${bytes(metrics.spool.bytes)}, ${count(metrics.spool.refusedMessages)} set aside` : "this server keeps none"} />
  <//>`;
}

function Switch({ path, data, what, on, verb, note, spool, refresh }) {
  const change = async () => {
    await post(path, { enabled: !data.enabled });
    say(data.enabled ? `${what} go on.` : `${what} ${on}.`);
    refresh();
  };
  return html`<p class="switch">
    <${Badge} tone=${data.enabled ? "warn" : "ok"}>${data.enabled ? on : "normal"}<//> <strong>${what}</strong>
    ${spool && spool.bufferedMessages > 0 && html`<span class="note num">${counted(spool.bufferedMessages, "message")} in the spool (${bytes(spool.bufferedBytes)})</span>`}
    ${may("admin") && html`<${OpenDialog} label=${data.enabled ? `Resume ${what.toLowerCase()} …` : `${verb} …`} dialog=${(close) => html`<${Confirm} title=${data.enabled ? `Resume ${what.toLowerCase()}?` : `${verb}?`} verb=${data.enabled ? "Resume" : verb} tone=${data.enabled ? "primary" : "bad"} run=${change} close=${close}><p>${data.enabled ? `${what} go on in all servers of this database.` : note}</p><//>`} />`}
  </p>`;
}

const Checks = ({ checks }) => html`<ul class="checks">
  ${checks.map((check) => html`<li><${Mark} tone=${TONES[check.severity]} /><div><strong>${check.name}</strong> <span class="off-screen">(${check.severity})</span> ${check.detail}${check.hint && html` <span class="note">${check.hint}</span>`}</div></li>`)}
</ul>`;

const TABLES = [
  { key: "name", label: "Table", value: (row) => row.name, cell: (row) => row.name },
  { key: "rows", label: "Rows, about", num: true, value: (row) => row.rows, cell: (row) => count(row.rows) },
  { key: "dead", label: "Dead rows", num: true, value: (row) => row.deadRows, cell: (row) => count(row.deadRows) },
  { key: "bytes", label: "Size", num: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  { key: "vacuumed", label: "Vacuumed", num: true, value: (row) => row.vacuumedAt, cell: (row) => (row.vacuumedAt ? html`<${Ago} moment=${row.vacuumedAt} />` : "not yet") },
];

function Postgres({ database, tables }) {
  return html`<${Stats} label="PostgreSQL">
      <${Stat} label="Version" value=${database.version.split(" ")[0]} />
      <${Stat} label="Size" value=${bytes(database.bytes)} note="of this database" />
      <${Stat} label="Connections" value=${count(database.connections)} unit=${`of ${count(database.connectionsMax)}`} tone=${database.connections > 0.9 * database.connectionsMax ? "warn" : ""} />
      <${Stat} label="Oldest transaction" value=${duration(database.oldestTransactionSeconds)} tone=${database.oldestTransactionSeconds > 300 ? "warn" : ""} note="keeps dead rows from being removed" />
      <${Stat} label="Commits" value=${count(database.commits)} unit="transactions" />
      <${Stat} label="Rollbacks" value=${count(database.rollbacks)} unit="transactions" />
      <${Stat} label="Deadlocks" value=${count(database.deadlocks)} unit="deadlocks" tone=${database.deadlocks ? "warn" : ""} />
      <${Stat} label="Cache" value=${percent(database.cacheHitRatio)} note="of blocks were in memory" />
    <//>
    <div class="gap"><${Table} label="Tables" columns=${TABLES} rows=${tables} id=${(row) => row.name} start="-bytes" size=${10} /></div>`;
}

const REQUESTS = [
  { key: "route", label: "Call", wide: true, value: (row) => row.route, cell: (row) => html`${row.method} ${row.route || "(no such address)"}` },
  { key: "status", label: "Status", value: (row) => row.status, cell: (row) => html`<${Badge} tone=${row.status >= 500 ? "bad" : row.status >= 400 ? "warn" : ""}>${row.status}<//>` },
  { key: "count", label: "Requests", num: true, value: (row) => row.count, cell: (row) => count(row.count) },
  { key: "mean", label: "On average", num: true, value: (row) => row.seconds / row.count, cell: (row) => duration(row.seconds / row.count), hint: "Time from request to answer; long polls wait on purpose" },
];

const Requests = ({ requests }) => html`<${Table} label="Requests" columns=${REQUESTS} rows=${requests} id=${(row) => `${row.method} ${row.route} ${row.status}`} start="-count" size=${10} />`;
