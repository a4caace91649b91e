// What groups have given up, by what it died of.
import { count, counted, groupName } from "../format.js";
import { grouped, list, PAGE } from "../dead-letters.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { replaceQuery, to } from "../router.js";
import { may } from "../session.js";
import { OpenDialog } from "../ui/dialog.js";
import { Ago, Empty, Header, Polled, Section } from "../ui/parts.js";
import { Table } from "../ui/table.js";
import { Letter, PurgeMany, RedriveMany } from "./dead-letter.js";

const SECONDS = 5;

export function DeadLetters({ query }) {
  const filter = { queue: query.queue, consumerGroup: query.group, partition: query.partition };
  const poll = usePoll((signal) => list(filter, 0, signal), Object.values(filter), SECONDS);
  const field = (name, label) => html`<label class="field inline">${label}<input class="short" type="search" value=${query[name] ?? ""} onChange=${(e) => replaceQuery({ [name]: e.target.value.trim(), error: "" })} /></label>`;
  return html`<${Header} title="Dead letters" lead="Messages that a group gave up. They are kept until an operator delivers them again or deletes them." />
    <div class="filters" role="search">${field("queue", "Queue")}${field("group", "Group")}${field("partition", "Partition")}</div>
    <${Polled} poll=${poll}>${(data) => html`<${Errors} data=${data} filter=${filter} query=${query} refresh=${poll.refresh} />`}<//>`;
}

function Errors({ data, filter, query, refresh }) {
  if (data.total === 0)
    return html`<${Empty} command="queen dlq list">There is no dead letter${Object.values(filter).some(Boolean) ? " like this" : ""}. A message becomes one when it has failed more often than its queue’s retryLimit allows.<//>`;
  const lines = grouped(data.messages);
  const chosen = lines.find((line) => line.key === query.error) ?? (lines.length === 1 ? lines[0] : null);
  const partial = data.total > data.messages.length;
  const columns = [
    { key: "sign", label: "Error", value: (row) => row.sign, cell: (row) => html`<a href=${to(["dead-letters"], { ...query, error: row.key })} aria-current=${row === chosen ? "true" : undefined}>${row.sign}</a>` },
    { key: "queue", label: "Queue", value: (row) => row.queue, cell: (row) => html`<a href=${to(["queues", row.queue])}>${row.queue}</a>` },
    { key: "group", label: "Group", value: (row) => row.group, cell: (row) => groupName(row.group) },
    { key: "count", label: "Letters", num: true, value: (row) => row.letters.length, cell: (row) => count(row.letters.length) },
    { key: "newest", label: "Newest", num: true, value: (row) => row.newest, cell: (row) => html`<${Ago} moment=${row.newest} />` },
  ];
  const all = { filter, matches: () => true, count: data.total, done: refresh, what: "all dead letters shown here" };
  return html`<${Section} title=${counted(data.total, "dead letter")} note=${partial ? `grouped by error: the newest ${count(Math.min(PAGE, data.messages.length))}` : "grouped by error"} actions=${html`<${Many} ...${all} />`}>
      <${Table} label="Dead letters by error" columns=${columns} rows=${lines} id=${(row) => row.key} start="-count" />
    <//>
    ${chosen && html`<${Letters} line=${chosen} partial=${partial} refresh=${refresh} />`}`;
}

function Many(props) {
  if (!may("admin")) return null;
  return html`<${OpenDialog} label="Redrive all …" name=${`Redrive ${props.what}`} dialog=${(close) => html`<${RedriveMany} ...${props} close=${close} />`} />
    <${OpenDialog} label="Purge all …" name=${`Purge ${props.what}`} dialog=${(close) => html`<${PurgeMany} ...${props} close=${close} />`} />`;
}

function Letters({ line, partial, refresh }) {
  const columns = [
    { key: "partition", label: "Partition", value: (row) => row.partition, cell: (row) => row.partition },
    { key: "offset", label: "Offset", num: true, value: (row) => row.offset, cell: (row) => count(row.offset) },
    { key: "error", label: "Error", wide: true, value: (row) => row.errorMessage, cell: (row) => row.errorMessage ?? "–" },
    { key: "retries", label: "Retries", num: true, value: (row) => row.retryCount, cell: (row) => count(row.retryCount) },
    { key: "failed", label: "Given up", num: true, value: (row) => row.failedAt, cell: (row) => html`<${Ago} moment=${row.failedAt} />` },
    { key: "inspect", label: "Look", cell: (row) => html`<${OpenDialog} label="Inspect" name=${`Inspect ${row.partition} ${row.offset}`} dialog=${(close) => html`<${Letter} letter=${row} close=${close} done=${refresh} />`} />` },
  ];
  const like = {
    filter: { queue: line.queue, consumerGroup: line.group },
    matches: (letter) => grouped([letter])[0].key === line.key,
    count: partial ? null : line.letters.length,
    done: refresh,
    what: `all dead letters with the error “${line.sign}”`,
  };
  return html`<${Section} title=${line.sign} note=${`${groupName(line.group)} on ${line.queue}`} actions=${html`<${Many} ...${like} />`}>
    <${Table} label=${`Dead letters: ${line.sign}`} columns=${columns} rows=${line.letters} id=${(row) => row.id} start="-failed" />
  <//>`;
}
