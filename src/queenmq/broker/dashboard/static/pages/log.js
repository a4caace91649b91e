// The messages of a partition: page by page, from an offset, a time, an id or a text on.
import { useState } from "preact/hooks";

import { count, time } from "../format.js";
import { html } from "../html.js";
import { find, offsetAt, page, PAGE, partitionId } from "../log.js";
import { usePoll } from "../poll.js";
import { go, replaceQuery, to } from "../router.js";
import { complain, say } from "../ui/notices.js";
import { Empty, Polled } from "../ui/parts.js";

const SECONDS = 3;
const WAYS = { offset: "Offset", time: "Time", id: "Message or transaction id", text: "Text in the payload" };

/** Without an offset in the address, the newest messages are shown, and new ones appear. */
export function Log({ queue, partition, start, next, query }) {
  const follows = query.offset === undefined;
  const asked = follows ? next - PAGE : Number(query.offset);
  const offset = Math.min(Math.max(start, asked || 0), Math.max(start, next));
  const poll = usePoll((signal) => page(queue, partition, offset, signal), [queue, partition, offset], follows ? 0 : SECONDS);
  const ids = usePoll((signal) => partitionId(queue, partition, signal), [queue, partition, next > start], 0);
  if (next === start) return html`<${Empty} command=${`queen push ${queue} '{"id": 1}' --partition ${partition}`}>Nothing is stored in this partition.<//>`;
  const show = (from) => replaceQuery({ offset: from });
  return html`<${Search} queue=${queue} partition=${partition} start=${start} id=${ids.data} show=${show} />
    <${Polled} poll=${poll}>${({ records }) => html`<${Records} records=${records} id=${ids.data} />
      <div class="pages">
        <span class="num" role="status">${records.length ? `Offsets ${count(records[0].offset)} to ${count(records.at(-1).offset)}` : "No message from here on"}${follows ? ", the newest" : ""}</span>
        <button type="button" disabled=${offset <= start} onClick=${() => show(start)}>Oldest</button>
        <button type="button" disabled=${offset <= start} onClick=${() => show(Math.max(start, offset - PAGE))}>Back</button>
        <button type="button" disabled=${records.length === 0 || records.at(-1).offset + 1 >= next} onClick=${() => show(records.at(-1).offset + 1)}>Next</button>
        <button type="button" disabled=${follows} onClick=${() => show(null)}>Newest</button>
      </div>`}<//>`;
}

function Records({ records, id }) {
  return html`<ol class="records">
    ${records.map(
      (record) => html`<li key=${record.offset}>
        <span class="num">${id ? html`<a href=${to(["messages", id, record.transactionId])}>${count(record.offset)}</a>` : count(record.offset)}</span>
        <time class="num" datetime=${record.ts}>${time(record.ts)}</time>
        <code class="brief">${JSON.stringify(record.payload)}</code>
      </li>`,
    )}
  </ol>`;
}

function Search({ queue, partition, start, id, show }) {
  const [way, setWay] = useState("offset");
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [from, setFrom] = useState(null); // where a search for a text goes on
  async function search(event) {
    event.preventDefault();
    setBusy(true);
    try {
      if (way === "offset") show(Number(text));
      else if (way === "time") show(await offsetAt(queue, partition, new Date(text)));
      else if (way === "id") go(["messages", id, text.trim()]);
      else await look();
    } catch (error) {
      complain(error);
    }
    setBusy(false);
  }
  async function look() {
    const result = await find(queue, partition, text, from ?? start);
    setFrom(result.ended ? null : result.offset + (result.found ? 1 : 0));
    if (result.found) show(result.offset);
    else if (result.ended) say("No message from here to the end has this text. The next search begins at the first message.", "warn");
    else say(`Nothing up to offset ${count(result.offset)}. Search again to go on from there.`, "warn");
  }
  const type = { offset: "number", time: "datetime-local" }[way] ?? "text";
  return html`<form class="filters" role="search" onSubmit=${search}>
    <label class="field inline">Find by <select value=${way} onChange=${(e) => (setWay(e.target.value), setText(""), setFrom(null))}>
      ${Object.entries(WAYS).map(([key, label]) => html`<option value=${key}>${label}</option>`)}
    </select></label>
    <label class="field inline"><span class="off-screen">${WAYS[way]}</span><input key=${way} type=${type} step="1" min="0" required value=${text} onInput=${(e) => (setText(e.target.value), setFrom(null))} /></label>
    <button type="submit" disabled=${busy}>${busy ? "Looking …" : from !== null ? "Find the next" : "Find"}</button>
  </form>`;
}
