// One partition: its log as a strip with each group's place on it, why each group gets nothing, and its messages.
import { address, get, post, query as encoded } from "../api.js";
import { count, counted, duration, groupName } from "../format.js";
import { html } from "../html.js";
import { ends } from "../log.js";
import { usePoll } from "../poll.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { OpenDialog } from "../ui/dialog.js";
import { complain, say } from "../ui/notices.js";
import { Empty, Header, Polled, Section, Stat, Stats } from "../ui/parts.js";
import { Table } from "../ui/table.js";
import { Log } from "./log.js";
import { PushMessage } from "./push-message.js";
import { Cause } from "./queue-partitions.js";
import { Seek } from "./seek.js";

const SECONDS = 3;
const GROUPS_MAX = 50; // whose places are asked for, one call each
const NO_PLACE = ["subscribed_later", "not_reached"];

async function load(queue, partition, signal) {
  const [log, status] = await Promise.all([ends(queue, partition, signal), get(`status/${address("queues", queue)}${encoded({ limit: 1 })}`, { signal })]);
  const places = await Promise.all(
    status.groups.slice(0, GROUPS_MAX).map(async ({ name }) => {
      const reasons = await get(`why/${address(queue)}${encoded({ group: name, partition })}`, { signal });
      return { group: name, ...reasons.at(-1) };
    }),
  );
  return { ...log, places, more: status.groups.length - places.length };
}

export function Partition({ queue, partition, query }) {
  const poll = usePoll((signal) => load(queue, partition, signal), [queue, partition], SECONDS);
  const crumbs = [["Queues", to(["queues"])], [queue, to(["queues", queue])], ["Partitions", to(["queues", queue], { tab: "partitions" })]];
  return html`<${Header} title=${partition} crumbs=${crumbs}>
      ${may("producer") && html`<${OpenDialog} label="Push a message" tone="primary" dialog=${(close) => html`<${PushMessage} queue=${queue} partition=${partition} close=${close} done=${poll.refresh} />`} />`}
    <//>
    <${Polled} poll=${poll}>
      ${(data) => html`<${Ends} data=${data} />
        <${Section} title="Groups" note=${data.more > 0 ? `${counted(data.more, "more group")} not shown` : ""}><${Places} data=${data} queue=${queue} partition=${partition} refresh=${poll.refresh} /><//>
        <${Section} title="Messages"><${Log} queue=${queue} partition=${partition} start=${data.start} next=${data.next} query=${query} /><//>`}
    <//>`;
}

const Ends = ({ data: { start, next } }) => html`<${Stats} label="The log">
  <${Stat} label="Stored" value=${count(next - start)} unit="messages" />
  <${Stat} label="Pushed ever" value=${count(next)} unit="messages" />
  <${Stat} label="First offset" value=${count(start)} note=${start ? "retention has deleted what was before" : "nothing was deleted"} />
  <${Stat} label="Next offset" value=${count(next)} note="of the next message" />
<//>`;

function Places({ data, queue, partition, refresh }) {
  if (data.places.length === 0) return html`<${Empty} command=${`queen pop ${queue} --group billing --partition ${partition}`}>No group reads this queue. A group begins with its first pop.<//>`;
  const columns = [
    { key: "group", label: "Group", value: (row) => row.group, cell: (row) => groupName(row.group) },
    { key: "state", label: "State", value: (row) => row.cause, cell: Cause },
    { key: "place", label: "Place in the log", wide: true, cell: (row) => html`<${Strip} row=${row} start=${data.start} next=${data.next} />` },
    { key: "offset", label: "Next offset", num: true, value: (row) => row.offset, cell: (row) => (NO_PLACE.includes(row.cause) ? "–" : count(row.offset)) },
    { key: "failures", label: "Failures", num: true, value: (row) => row.failures, cell: (row) => count(row.failures), hint: "How often its next message has failed" },
    { key: "until", label: "Ends in", num: true, cell: (row) => (row.until ? duration(Math.max(0, (new Date(row.until) - Date.now()) / 1000)) : "–") },
    { key: "why", label: "Why", wide: true, cell: (row) => row.explanation },
    { key: "actions", label: "Change", cell: (row) => html`<${Actions} row=${row} data=${data} queue=${queue} partition=${partition} refresh=${refresh} />` },
  ];
  return html`<${Table} label=${`Groups in ${partition}`} columns=${columns.filter((column) => column.key !== "actions" || may("consumer"))} rows=${data.places} id=${(row) => row.group} start="group" />`;
}

/** From the first stored message to the end of the log: what a group has behind it, holds, and has before it. */
function Strip({ row, start, next }) {
  if (NO_PLACE.includes(row.cause)) return html`<span class="note">not in this partition yet</span>`;
  const size = Math.max(1, next - start);
  const percent = (offset) => `${(100 * Math.min(Math.max(0, offset - start), size)) / size}%`;
  const done = row.cause === "read" ? next : row.offset;
  const held = row.cause === "leased" ? row.messages : 0;
  const parts = [`${counted(Math.max(0, done - start), "stored message")} behind it`, held && `${count(held)} leased`, `${count(next - done)} unfinished`];
  return html`<div class="strip" role="img" aria-label=${parts.filter(Boolean).join(", ")} title=${parts.filter(Boolean).join(", ")}>
    <div class="done" style=${{ width: percent(done) }}></div>
    ${held > 0 && html`<div class="held" style=${{ left: percent(done), width: percent(start + held) }}></div>`}
    <div class="cursor" style=${{ left: percent(done) }}></div>
  </div>`;
}

function Actions({ row, data, queue, partition, refresh }) {
  async function release() {
    try {
      const [{ success, error }] = await post(`${address("lease", row.leaseId)}/release`);
      say(success ? "The lease is released: its messages can be popped again." : error, success ? "ok" : "warn");
      refresh();
    } catch (error) {
      complain(error);
    }
  }
  const place = { name: partition, start: data.start, next: data.next, committed: row.cause === "read" ? data.next : row.offset };
  return html`<span class="row-actions">
    ${may("admin") && html`<${OpenDialog} label="Seek …" name=${`Seek … ${groupName(row.group)}`} dialog=${(close) => html`<${Seek} group=${row.group} queue=${queue} partition=${place} close=${close} done=${refresh} />`} />`}
    ${row.leaseId && may("consumer") && html`<button type="button" aria-label=${`Release the lease of ${groupName(row.group)}`} onClick=${release}>Release</button>`}
  </span>`;
}
