// Is everything healthy? What is not comes first; then the numbers of now and the last hour.
import { send } from "../api.js";
import { findings } from "../attention.js";
import { count, duration, rate, time } from "../format.js";
import { html } from "../html.js";
import { useNow } from "../now.js";
import { usePoll } from "../poll.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { Chart } from "../ui/chart.js";
import { Empty, Failure, Header, Loading, Mark, Polled, Section, Stat, Stats } from "../ui/parts.js";

const OFTEN = ["overview", "groups", "unread", "maintenance", "popMaintenance", "ready"];
const RARELY = ["traffic", "ledger", "metrics"];
const OFTEN_SECONDS = 2;
const RARELY_SECONDS = 15;
const DOCTOR_SECONDS = 60;

export function Overview() {
  const polls = {
    ...useNow(OFTEN, OFTEN_SECONDS),
    ...useNow(RARELY, RARELY_SECONDS),
    rates: usePoll((signal) => send("GET", "dashboard/rates", undefined, { signal }), [], RARELY_SECONDS),
    ...(may("admin") && useNow(["doctor"], DOCTOR_SECONDS, "checks")),
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

function Attention({ polls }) {
  const known = Object.fromEntries(Object.entries(polls).map(([name, poll]) => [name, poll.data]));
  const failed = Object.values(polls).filter((poll) => poll.error);
  const waiting = Object.values(polls).some((poll) => poll.data === undefined && !poll.error);
  const found = findings(known);
  const urgent = found.filter((each) => each.tone !== "info");
  const judged = !waiting && failed.length === 0;
  return html`<section class="attention" aria-label="What needs attention">
    ${failed.length > 0 && html`<${Failure} error=${failed[0].error} at=${failed[0].at} retry=${() => failed.forEach((poll) => poll.refresh())} />`}
    ${urgent.length > 0 && html`<h2>${urgent.length === 1 ? "1 thing needs" : `${urgent.length} things need`} attention</h2>`}
    ${urgent.length === 0 && judged && html`<p class="fine"><${Mark} tone="ok" />Everything is healthy: nothing is stuck, unread, full or growing, and every ledger balances.</p>`}
    <ul>
      ${found.map(
        (each) => html`<li class=${each.tone}>
          <${Mark} tone=${each.tone} />
          <div>${each.href ? html`<a href=${each.href}>${each.what}</a>` : html`<span class="what">${each.what}</span>`}${each.hint && html` <span class="note">${each.hint}</span>`}</div>
        </li>`,
      )}
    </ul>
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
