// Is everything healthy? What is not comes first; then the numbers of now and the last hour.
import { get, send } from "../api.js";
import { findings } from "../attention.js";
import { count, duration, rate, time } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { Chart } from "../ui/chart.js";
import { Empty, Failure, Header, Loading, Mark, Polled, Section, Stat, Stats } from "../ui/parts.js";

const OFTEN = 3;
const SOMETIMES = 15;
const RARELY = 60;

export function Overview() {
  const polls = {
    overview: usePoll((signal) => get("resources/overview", { signal }), [], OFTEN),
    traffic: usePoll((signal) => get("status/analytics?interval=minute", { signal }), [], SOMETIMES),
    groups: usePoll((signal) => get("consumer-groups", { signal }), [], OFTEN),
    unread: usePoll((signal) => get("unread", { signal }), [], SOMETIMES),
    rates: usePoll((signal) => send("GET", "dashboard/rates", undefined, { signal }), [], SOMETIMES),
    ledger: usePoll((signal) => get("ledger", { signal }), [], SOMETIMES),
    maintenance: usePoll((signal) => get("system/maintenance", { signal }), [], SOMETIMES),
    popMaintenance: usePoll((signal) => get("system/maintenance/pop", { signal }), [], SOMETIMES),
    ready: usePoll(readiness, [], SOMETIMES),
    metrics: usePoll((signal) => send("GET", "metrics", undefined, { signal }), [], SOMETIMES),
    doctor: usePoll((signal) => (may("admin") ? get("doctor", { signal }) : null), [], RARELY),
  };
  const { overview, traffic, groups, unread, metrics } = polls;
  return html`<${Header} title="Overview" />
    <${Attention} polls=${polls} />
    <${Section} title="Now">
      <${Polled} poll=${overview}>${(data) => html`<${Numbers} overview=${data} traffic=${traffic.data} groups=${groups.data} unread=${unread.data} metrics=${metrics.data} />`}<//>
    <//>
    <${Section} title="The last hour" note="counted once a minute, for all servers">
      <${Polled} poll=${traffic}>${(data) => html`<${Hour} steps=${data.throughput} totals=${data.totals} />`}<//>
    <//>`;
}

/** 503 is an answer here: it says what is in the way. */
async function readiness(signal) {
  try {
    return await send("GET", "ready", undefined, { signal });
  } catch (error) {
    if (error.body?.parts) return error.body;
    throw error;
  }
}

function Attention({ polls }) {
  const known = Object.fromEntries(Object.entries(polls).map(([name, poll]) => [name, poll.data]));
  const failed = Object.values(polls).filter((poll) => poll.error);
  const waiting = Object.values(polls).some((poll) => poll.data === undefined && !poll.error);
  const found = findings(known);
  const judged = !waiting && failed.length === 0;
  return html`<section class="attention" aria-label="What needs attention">
    ${failed.length > 0 && html`<${Failure} error=${failed[0].error} at=${failed[0].at} retry=${() => failed.forEach((poll) => poll.refresh())} />`}
    ${found.length > 0 &&
    html`<h2>${found.length === 1 ? "1 thing needs" : `${found.length} things need`} attention</h2>
      <ul>
        ${found.map(
          (each) => html`<li class=${each.tone}>
            <${Mark} tone=${each.tone} />
            <div>${each.href ? html`<a href=${each.href}>${each.what}</a>` : html`<span class="what">${each.what}</span>`}${each.hint && html` <span class="note">${each.hint}</span>`}</div>
          </li>`,
        )}
      </ul>`}
    ${found.length === 0 && judged && html`<p class="fine"><${Mark} tone="ok" />Everything is healthy: nothing is stuck, unread, full or growing, and every ledger balances.</p>`}
    ${found.length === 0 && waiting && html`<${Loading} />`}
  </section>`;
}

function Numbers({ overview, traffic, groups, unread, metrics }) {
  const { messages } = overview;
  const last = traffic?.throughput.filter((step) => step.unfinished !== null).at(-1);
  const ages = groups && unread ? [...groups.map((group) => group.maxTimeLag), ...unread.map((line) => line.seconds)] : null;
  const oldest = ages && Math.max(0, ...ages);
  const errors = metrics?.requests.filter((each) => each.status >= 500).reduce((sum, each) => sum + each.count, 0);
  const lastMinute = last ? `in the minute of ${time(last.timestamp).slice(0, -3)}` : "known after two minutes";
  return html`<${Stats} label="Now">
    <${Stat} label="In" value=${rate(last?.ingestedPerSecond)} note=${lastMinute} />
    <${Stat} label="Out" value=${rate(last?.processedPerSecond)} note=${lastMinute} />
    <${Stat} label="Backlog" value=${count(messages.pending)} unit="messages" note=${oldest ? `oldest ${duration(oldest)}` : oldest === 0 ? "nothing waits" : ""} href=${to(["queues"])} />
    <${Stat} label="Leased" value=${count(messages.processing)} unit="messages" note=${`${count(overview.activeLeases)} leases`} />
    <${Stat} label="Retrying" value=${count(messages.failed)} unit="messages" tone=${messages.failed ? "warn" : ""} note="failed, will be tried again" />
    <${Stat} label="Dead letters" value=${count(messages.deadLetter)} unit="messages" tone=${messages.deadLetter ? "warn" : ""} note="given up, kept" href=${to(["dead-letters"])} />
    <${Stat} label="Server errors" value=${count(errors)} unit="answers" tone=${errors ? "warn" : ""} note="5xx since this server started" />
    <${Stat} label="Stored" value=${count(messages.total)} unit="messages" note=${`${count(overview.queues)} queues, ${count(overview.partitions)} partitions`} />
  <//>`;
}

function Hour({ steps, totals }) {
  if (steps.every((step) => step.unfinished === null))
    return html`<${Empty} command="queen push orders '{"id": 1}'">No traffic was counted in the last hour. Push a message; the charts begin after a minute.<//>`;
  const flow = [
    { key: "ingestedPerSecond", label: "In", tone: "first", fill: true },
    { key: "processedPerSecond", label: "Out", tone: "second", dash: true },
  ];
  const lost = [
    { key: "deadLettered", label: "Dead letters", tone: "bad" },
    { key: "expired", label: "Expired", tone: "third", dash: true },
  ];
  const counted = steps.map((step) =>
    step.unfinished === null ? { ...step, ingestedPerSecond: null, processedPerSecond: null, deadLettered: null, expired: null } : step,
  );
  return html`<div class="charts">
      <${Chart} title="Messages per second" steps=${counted} lines=${flow} show=${rate} />
      <${Chart} title="Backlog, messages" steps=${counted} lines=${[{ key: "unfinished", label: "Unfinished", tone: "third", fill: true }]} show=${count} />
      <${Chart} title="Given up, messages per minute" steps=${counted} lines=${lost} show=${count} />
    </div>
    <p class="note num">In this hour: ${count(totals.ingested)} messages in, ${count(totals.processed)} finished, ${count(totals.deadLettered)} dead letters, ${count(totals.expired)} expired.</p>`;
}
