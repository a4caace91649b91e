// One message: payload, ids and headers, and its life as each group sees it.
import { useState } from "preact/hooks";

import { address, get, post, query as encoded, remove } from "../api.js";
import { count, counted, groupName, QUEUE_MODE, shell, time } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { Confirm, OpenDialog } from "../ui/dialog.js";
import { say } from "../ui/notices.js";
import { Badge, Copy, Empty, Header, Json, Polled, Section } from "../ui/parts.js";
import { Table } from "../ui/table.js";
import { PushMessage } from "./push-message.js";

const SECONDS = 5;
const STATES = {
  pending: ["", "waits"],
  processing: ["info", "leased"],
  completed: ["ok", "finished"],
  dead_letter: ["bad", "dead letter"],
};

async function load(partition, id, signal) {
  const path = `messages/${address(partition, id)}`;
  const message = await get(path, { signal, exact: true });
  const [status, events, letters] = await Promise.all([
    get(`status/${address("queues", message.queue)}?limit=1`, { signal }),
    get(`traces/${address(partition, id)}`, { signal, exact: true }),
    get(`dlq${encoded({ queue: message.queue, partition: message.partition, limit: 1000 })}`, { signal }),
  ]);
  const lives = await Promise.all(status.groups.map(({ name }) => life(path, message, name, letters.messages, signal)));
  return { message, lives, events: events.traces, moreEvents: events.nextCursor !== null };
}

async function life(path, message, group, letters, signal) {
  const [{ status }, [reason]] = await Promise.all([
    get(path + encoded({ consumerGroup: group }), { signal }),
    get(`why/${address(message.queue)}${encoded({ group, partition: message.partition })}`, { signal }).then((all) => all.slice(-1)),
  ]);
  const letter = letters.find((each) => each.messageId === message.id && each.consumerGroup === group);
  return { group, status, reason, letter, next: reason?.offset === message.offset };
}

export function Message({ partition, id }) {
  const poll = usePoll((signal) => load(partition, id, signal), [partition, id], SECONDS);
  return html`<${Polled} poll=${poll}>${(data) => html`<${Shown} ...${data} refresh=${poll.refresh} />`}<//>
    ${poll.data === undefined && html`<${Header} title="Message" />`}`;
}

function Shown({ message, lives, events, moreEvents, refresh }) {
  const crumbs = [[message.queue, to(["queues", message.queue])], [message.partition, to(["queues", message.queue, "partitions", message.partition], { offset: message.offset })]];
  const text = JSON.stringify(message.data, null, 2);
  const copy = (close) => html`<${PushMessage} title="Push a copy" queue=${message.queue} partition=${message.partition} payload=${text} headers=${message.headers} close=${close} />`;
  return html`<${Header} title=${`Message ${count(message.offset)}`} crumbs=${crumbs}>
      ${may("producer") && html`<${OpenDialog} label="Push a copy …" dialog=${copy} />`}
      ${may("admin") && html`<${OpenDialog} label="Delete …" dialog=${(close) => html`<${Delete} message=${message} close=${close} done=${refresh} />`} />`}
    <//>
    <dl class="facts framed">
      ${facts(message).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
    </dl>
    <${Section} title="Its life in each group"><${Lives} lives=${lives} message=${message} refresh=${refresh} /><//>
    <${Section} title="Payload" actions=${html`<${Copy} text=${text} label="Copy the payload" /><${Copy} text=${asCurl(message)} label="Copy as curl" /><${Copy} text=${asPython(message)} label="Copy as Python" />`}>
      <${Json} value=${message.data} />
    <//>
    <${Section} title="What consumers noted about it">
      ${events.length === 0
        ? html`<${Empty} command=${asTrace(message)}>Nothing. A consumer that handles a message can note what it did.<//>`
        : html`<ol class="events">${events.map((event) => html`<li><time class="num">${time(event.created_at)}</time><strong>${event.event_type}</strong><span class="note">${groupName(event.consumer_group)}</span><code>${JSON.stringify(event.data)}</code></li>`)}</ol>
            ${moreEvents && html`<p class="note">There are more events; the API lists all of them.</p>`}`}
    <//>`;
}

const facts = (message) =>
  [
    ["Queue", html`<a href=${to(["queues", message.queue])}>${message.queue}</a>`],
    ["Partition", message.partition],
    ["Pushed", time(message.createdAt)],
    ["Message id", html`<code>${message.id}</code>`],
    ["Transaction id", html`<code>${message.transactionId}</code>`],
    message.traceId && ["Trace", html`<a href=${to(["traces", message.traceId])}><code>${message.traceId}</code></a>`],
    message.producerSub && ["Pushed by", message.producerSub],
    ["Stored", message.encrypted ? "encrypted" : "as it was pushed"],
    ...Object.entries(message.headers ?? {}).map(([name, value]) => [`Header ${name}`, value]),
  ].filter(Boolean);

function Lives({ lives, message, refresh }) {
  if (lives.length === 0) return html`<${Empty} command=${`queen pop ${shell(message.queue)} --group billing`}>No group reads this queue, so nothing has happened to the message since its push.<//>`;
  const columns = [
    { key: "group", label: "Group", value: (row) => row.group, cell: (row) => groupName(row.group) },
    { key: "state", label: "State", value: (row) => row.status, cell: (row) => html`<${Badge} tone=${STATES[row.status]?.[0]}>${STATES[row.status]?.[1] ?? row.status}<//>` },
    { key: "story", label: "What happens", wide: true, cell: (row) => story(row, message) },
    may("admin") && { key: "actions", label: "Change", cell: (row) => html`<${Actions} row=${row} message=${message} refresh=${refresh} />` },
  ].filter(Boolean);
  return html`<${Table} label="Groups" columns=${columns} rows=${lives} id=${(row) => row.group} start="group" />`;
}

function story({ status, reason, letter, next }, message) {
  if (letter) return `It was given up ${time(letter.failedAt)} after ${counted(letter.retryCount, "retry", "retries")}: ${letter.errorMessage ?? "no error was given"}.`;
  if (status === "completed") return "The group has finished it, or began behind it.";
  if (next && reason) return `It is the next one. ${reason.failures ? `It has failed ${counted(reason.failures, "time")}. ` : ""}${reason.explanation}.`;
  if (status === "processing") return reason?.explanation ?? "A consumer holds it.";
  return reason?.offset !== null && reason?.offset < message.offset ? `It waits behind the message at offset ${count(reason.offset)}: ${reason.explanation}.` : reason?.explanation ?? "It waits.";
}

function Actions({ row, message, refresh }) {
  const path = `messages/${address(message.partitionId, message.transactionId)}`;
  const group = encoded({ consumerGroup: row.group === QUEUE_MODE ? null : row.group });
  const redrive = async () => {
    await post(`${path}/retry${group}`);
    say(`It is delivered again to ${groupName(row.group)}.`);
    refresh();
  };
  if (row.status === "dead_letter")
    return html`<${OpenDialog} label="Redrive …" name=${`Redrive … for ${row.group}`} dialog=${(close) => html`<${Confirm} title="Deliver it again?" verb="Redrive" tone="primary" run=${redrive} close=${close}><p>${groupName(row.group)} gets it again in its old place.</p><//>`} />`;
  if (row.status === "completed") return "–";
  return html`<${OpenDialog} label="Give up …" name=${`Give up … for ${row.group}`} dialog=${(close) => html`<${GiveUp} row=${row} path=${path} group=${group} close=${close} done=${refresh} />`} />`;
}

function GiveUp({ row, path, group, close, done }) {
  const [error, setError] = useState("");
  async function run() {
    await post(`${path}/dlq${group}`, { error: error || null });
    say(`It is a dead letter of ${groupName(row.group)} now.`);
    done();
  }
  return html`<${Confirm} title=${`Give it up for ${groupName(row.group)}?`} verb="Give it up" run=${run} close=${close}>
    <p>The group does not get it any more. It becomes a dead letter, which can be redriven.</p>
    <label class="field">Why, for those who look at the dead letter<input value=${error} onInput=${(e) => setError(e.target.value)} /></label>
  <//>`;
}

function Delete({ message, close, done }) {
  async function run() {
    const { groups } = await remove(`messages/${address(message.partitionId, message.transactionId)}`);
    say(`No group gets it any more (${counted(groups, "group")} had yet to).`);
    done();
  }
  return html`<${Confirm} title="Keep it from every group?" verb="Delete it" run=${run} close=${close}>
    <p>No group gets the message any more, and its dead letters are purged. It stays in the log until retention takes it.</p>
  <//>`;
}

const asCurl = (message) => `curl -s ${shell(new URL(`api/v1/messages/${address(message.partitionId, message.transactionId)}`, document.baseURI).href)}`;

// A JSON text is also a string of Python when it is quoted as JSON.
const asPython = (message) => `import json

from queenmq import Queen

with Queen(${JSON.stringify(new URL(".", document.baseURI).href.replace(/\/$/, ""))}) as queen:
    partition = queen.queue(${JSON.stringify(message.queue)}).partition(${JSON.stringify(message.partition)})
    partition.push(json.loads(${JSON.stringify(JSON.stringify(message.data))}))
`;

const asTrace = (message) => {
  const body = { transactionId: message.transactionId, partitionId: message.partitionId, eventType: "printed", data: {} };
  return `curl -s ${shell(new URL("api/v1/traces", document.baseURI).href)} -d ${shell(JSON.stringify(body))}`;
};
