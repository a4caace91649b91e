// Traces: search by id; the way of one thing through the queues, with the time that each step took.
import { useState } from "preact/hooks";

import { address, get, query } from "../api.js";
import { count, counted, duration, groupName, time } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { go, to } from "../router.js";
import { Ago, Empty, Header, Polled, Section } from "../ui/parts.js";
import { Table } from "../ui/table.js";

const SECONDS = 5;
const NAMES_MAX = 1_000;

export function Traces() {
  const [id, setId] = useState("");
  const poll = usePoll((signal) => get(`traces/names${query({ limit: NAMES_MAX })}`, { signal }), [], SECONDS);
  const submit = (event) => {
    event.preventDefault();
    go(["traces", id.trim()]);
  };
  const columns = [
    { key: "name", label: "Name", value: (row) => row.trace_name, cell: (row) => html`<a href=${to(["traces", "by-name", row.trace_name])}>${row.trace_name}</a>` },
    { key: "events", label: "Events", num: true, value: (row) => row.trace_count, cell: (row) => count(row.trace_count) },
    { key: "messages", label: "Messages", num: true, value: (row) => row.message_count, cell: (row) => count(row.message_count) },
    { key: "last", label: "Last used", num: true, value: (row) => row.last_seen, cell: (row) => html`<${Ago} moment=${row.last_seen} />` },
  ];
  return html`<${Header} title="Traces" lead="A trace id that is given with pushes ties together what one thing sets off in several queues." />
    <form class="filters" role="search" onSubmit=${submit}>
      <label class="field inline">Trace id <input class="uuid" required pattern="\\s*[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\\s*" title="A UUID" placeholder="0190a3e4-0000-4000-8000-000000000009" value=${id} onInput=${(e) => setId(e.target.value)} /></label>
      <button type="submit" class="primary">Show its way</button>
    </form>
    <${Section} title="Names" note="under which consumers noted events">
      <${Polled} poll=${poll}>
        ${(data) =>
          data.total === 0
            ? html`<${Empty} command=${`queen trace 0190a3e4-0000-4000-8000-000000000009`}>No consumer has noted an event under a name. A message has a trace if its push had a traceId.<//>`
            : html`<${Table} label="Names" columns=${columns} rows=${data.trace_names} id=${(row) => row.trace_name} start="-last" />`}
      <//>
    <//>`;
}

export function NamedEvents({ name }) {
  const poll = usePoll((signal) => get(`traces/by-name/${address(name)}${query({ limit: NAMES_MAX })}`, { signal, exact: true }), [name], SECONDS);
  const columns = [
    { key: "event", label: "Event", value: (row) => row.event_type, cell: (row) => row.event_type },
    { key: "message", label: "Message", cell: (row) => html`<a href=${to(["messages", row.partition_id, row.transaction_id])}>${row.queue_name} / ${row.partition_name}</a>` },
    { key: "group", label: "Group", value: (row) => row.consumer_group, cell: (row) => groupName(row.consumer_group) },
    { key: "at", label: "Noted", num: true, value: (row) => row.created_at, cell: (row) => time(row.created_at) },
    { key: "data", label: "Data", wide: true, cell: (row) => html`<code>${JSON.stringify(row.data)}</code>` },
  ];
  return html`<${Header} title=${name} crumbs=${[["Traces", to(["traces"])]]} />
    <${Polled} poll=${poll}>${(data) => html`<p class="note num">${counted(data.total, "event")}, newest first.</p><${Table} label="Events" columns=${columns} rows=${data.traces} id=${(row) => row.id} />`}<//>`;
}

export function Trace({ trace }) {
  const poll = usePoll((signal) => get(`traces/id/${address(trace)}`, { signal, exact: true }), [trace], SECONDS);
  return html`<${Header} title=${trace} crumbs=${[["Traces", to(["traces"])]]} />
    <${Polled} poll=${poll}>
      ${(data) =>
        data.messages.length === 0
          ? html`<${Empty} command=${`queen trace ${trace}`}>No stored message has this trace id. A message has one if its push had a traceId, as long as retention keeps the message.<//>`
          : html`<${Waterfall} data=${data} />`}
    <//>`;
}

/** Each step begins where its message was pushed, and ends where the next one was. */
function Waterfall({ data }) {
  const { messages, totalSeconds } = data;
  const percent = (seconds) => (totalSeconds > 0 ? (100 * seconds) / totalSeconds : 0);
  return html`<p class="note num">${counted(messages.length, "message")}${data.nextCursor ? ", the first ones" : ""}, ${duration(totalSeconds)} from the first push to the last.</p>
    <ol class="waterfall" aria-label="Messages of this trace">
      ${messages.map((step, at) => {
        const next = messages[at + 1];
        const took = next ? next.secondsSincePrevious : null;
        return html`<li key=${step.step}>
          <div class="step">
            <a href=${to(["queues", step.queue, "partitions", step.partition], { offset: step.offset })}>${step.queue}</a>
            <span class="note under">${step.partition} · offset ${count(step.offset)}</span></div>
          <div class="lane" aria-hidden="true"><div class="bar" style=${{ left: `${percent(step.secondsSinceStart)}%`, width: `${percent(took ?? 0)}%` }}></div></div>
          <div class="num took">+${duration(step.secondsSinceStart)}<span class="note under">${took === null ? "the last push" : `next after ${duration(took)}`}</span></div>
          <code class="brief">${JSON.stringify(step.data)}</code>
        </li>`;
      })}
    </ol>`;
}
