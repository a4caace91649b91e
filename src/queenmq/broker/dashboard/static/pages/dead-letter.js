// One dead letter, and what can be done with one or many: deliver again, edit a copy and push it, delete.
import { useRef, useState } from "preact/hooks";

import { collect, purge, redrive } from "../dead-letters.js";
import { count, counted, groupName, time } from "../format.js";
import { html } from "../html.js";
import { to } from "../router.js";
import { may } from "../session.js";
import { Confirm, Dialog } from "../ui/dialog.js";
import { complain, say } from "../ui/notices.js";
import { Copy, Json } from "../ui/parts.js";
import { PushMessage } from "./push-message.js";

export function Letter({ letter, close, done }) {
  const [next, setNext] = useState(null); // edit or purge
  const finish = () => {
    close();
    done();
  };
  async function again() {
    try {
      const found = await redrive([letter.id]);
      say(found ? `${letter.partition} ${letter.offset} is delivered again to ${groupName(letter.consumerGroup)}.` : "It was not there any more.", found ? "ok" : "warn");
      finish();
    } catch (error) {
      complain(error);
    }
  }
  if (next === "edit") return html`<${EditCopy} letter=${letter} close=${close} done=${done} />`;
  if (next === "purge")
    return html`<${PurgeMany} what=${`the dead letter ${letter.partition} ${letter.offset}`} ids=${[letter.id]} count=${1} close=${close} done=${done} />`;
  const facts = [
    ["Error", letter.errorMessage ?? "none was given"],
    ["Queue", letter.queue],
    ["Partition", letter.partition],
    ["Offset", count(letter.offset)],
    ["Group", groupName(letter.consumerGroup)],
    ["Retries", counted(letter.retryCount, "retry", "retries")],
    ["Pushed", time(letter.createdAt)],
    ["Given up", time(letter.failedAt)],
    ["Message", html`<a href=${to(["messages", letter.partitionId, letter.transactionId])} onClick=${close}>${letter.transactionId}</a>`],
    letter.producerSub && ["Pushed by", letter.producerSub],
    letter.traceId && ["Trace", html`<a href=${to(["traces", letter.traceId])} onClick=${close}>${letter.traceId}</a>`],
    ...Object.entries(letter.headers ?? {}).map(([name, value]) => [`Header ${name}`, value]),
  ].filter(Boolean);
  return html`<${Dialog} title="Dead letter" wide close=${close}>
    <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <div class="payload-head"><h3>Payload</h3><${Copy} text=${JSON.stringify(letter.data, null, 2)} label="Copy the payload" /></div>
    <${Json} value=${letter.data} />
    <div class="dialog-foot">
      ${may("admin") && html`<button type="button" class="bad quiet" onClick=${() => setNext("purge")}>Purge …</button>`}
      ${may("producer") && html`<button type="button" onClick=${() => setNext("edit")}>Edit a copy …</button>`}
      ${may("admin") && html`<button type="button" class="primary" onClick=${again}>Redrive</button>`}
    </div>
  <//>`;
}

function EditCopy({ letter, close, done }) {
  const [drop, setDrop] = useState(false);
  const pushed = async () => {
    if (drop) await purge([letter.id]);
  };
  const note = html`<p>The copy goes to the end of the partition, for every group that reads it.${may("admin") ? "" : " The dead letter stays."}</p>
    ${may("admin") && html`<label class="check"><input type="checkbox" checked=${drop} onChange=${(e) => setDrop(e.target.checked)} />Delete the dead letter when the copy is stored</label>`}`;
  return html`<${PushMessage} title="Edit a copy and push it" note=${note} queue=${letter.queue} partition=${letter.partition} headers=${letter.headers}
    payload=${JSON.stringify(letter.data, null, 2)} close=${close} done=${done} pushed=${pushed} />`;
}

/** Asks, looks for all that match, delivers them again, and says how far it is. `count` is null where only the search will tell. */
export function RedriveMany({ what, filter, matches, count: known, close, done }) {
  const work = useWork();
  async function run() {
    const ids = await collect(filter, matches, work.found);
    const number = await redrive(ids, work.did);
    say(`${counted(number, "dead letter")} delivered again.`);
    done();
  }
  return html`<${Confirm} title=${`Redrive ${what}?`} verb=${known === null ? "Redrive all of them" : `Redrive ${count(known)}`} tone="primary" run=${run} close=${work.closing(close)}>
    <p>Each is delivered again in its old place, to the group that gave it up. Until it is finished, newer messages of its partition wait behind it.</p>
    <${Progress} work=${work} />
  <//>`;
}

export function PurgeMany({ what, filter, matches, ids, count: known, close, done }) {
  const work = useWork();
  async function run() {
    const chosen = ids ?? (await collect(filter, matches, work.found));
    const number = await purge(chosen, work.did);
    say(`${counted(number, "dead letter")} deleted.`);
    done();
  }
  return html`<${Confirm} title=${`Purge ${what}?`} verb=${known === null ? "Delete all of them" : `Delete ${count(known)}`} word=${known === 1 ? undefined : "purge"} run=${run} close=${work.closing(close)}>
    <p>They are deleted for good. The messages stay in the log of their partition until retention takes them, but no group gets them any more.</p>
    <${Progress} work=${work} />
  <//>`;
}

/** How far a long work is; closing the dialog stops it after the call that runs. */
function useWork() {
  const [state, set] = useState(null);
  const stopped = useRef(false);
  const check = (next) => {
    if (stopped.current) throw new Error("Stopped.");
    set(next);
  };
  return {
    state,
    found: (number) => check({ text: `${count(number)} found …` }),
    did: (number, all) => check({ text: `${count(number)} of ${count(all)}`, part: number / all }),
    closing: (close) => () => {
      stopped.current = true;
      close();
    },
  };
}

const Progress = ({ work: { state } }) =>
  state && html`<p role="status" class="num">${state.text}</p>${state.part !== undefined && html`<progress value=${state.part} max="1" aria-label="Progress"></progress>`}`;
