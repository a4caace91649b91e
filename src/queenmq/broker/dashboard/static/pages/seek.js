// Move a group: to the beginning, the end, a moment, or an offset of one partition; with what that means before it happens.
import { useEffect, useState } from "preact/hooks";

import { address, get, post } from "../api.js";
import { counted, groupName, time } from "../format.js";
import { html } from "../html.js";
import { Confirm } from "../ui/dialog.js";
import { say } from "../ui/notices.js";

const TARGETS = [["end", "The end: skip what waits"], ["beginning", "The beginning: deliver everything again"], ["moment", "A moment"]];

/** `partition`: { name, start, next, committed } moves in that one only, and takes an offset too. */
export function Seek({ group, queue, lag, partition, close, done }) {
  const [target, setTarget] = useState("end");
  const [moment, setMoment] = useState("");
  const [offset, setOffset] = useState(partition?.committed ?? 0);
  const [stored, setStored] = useState(null);
  useEffect(() => {
    if (!partition) get(`resources/${address("queues", queue)}?limit=1`).then((found) => setStored(found.totals.total), () => setStored(null));
  }, []);
  const targets = partition ? [...TARGETS, ["offset", "An offset"]] : TARGETS;
  const body = {
    end: { toEnd: true },
    beginning: { toBeginning: true },
    moment: { timestamp: moment && new Date(moment).toISOString() },
    offset: { offset: Number(offset) },
  }[target];
  async function run() {
    const place = partition ? address("queues", queue, "partitions", partition.name, "seek") : address("queues", queue, "seek");
    const answer = await post(`${address("consumer-groups", group)}/${place}`, body);
    say(`${groupName(group)} moved in ${counted(answer.partitionsUpdated, "partition")} of ${queue}.`);
    done();
  }
  return html`<${Confirm} title=${`Move ${groupName(group)} on ${partition ? `${queue} / ${partition.name}` : queue}`} verb="Move the group" run=${run} close=${close}>
    <fieldset class="choices"><legend>Where to</legend>
      ${targets.map(([key, label]) => html`<label><input type="radio" name="target" value=${key} checked=${target === key} onChange=${() => setTarget(key)} />${label}</label>`)}
    </fieldset>
    ${target === "moment" && html`<label class="field">The first message pushed then or later<input type="datetime-local" step="1" value=${moment} onInput=${(e) => setMoment(e.target.value)} required /></label>`}
    ${target === "offset" && html`<label class="field">Offset of the next message<input type="number" min="0" step="1" value=${offset} onInput=${(e) => setOffset(e.target.value)} required /></label>`}
    <p class="remark">${effect(target, { lag, stored, partition, offset: Number(offset), moment })} Leases on what moves end, and the group's ledger begins anew there.</p>
  <//>`;
}

/** What the group would get again, or never. */
export function effect(target, { lag, stored, partition, offset, moment }) {
  if (partition) {
    const place = { end: partition.next, beginning: partition.start, offset: Math.min(Math.max(offset, partition.start), partition.next) }[target];
    if (place === undefined) return soon(moment);
    if (place > partition.committed) return `The group skips ${counted(place - partition.committed, "message")}, from offset ${partition.committed} on.`;
    if (place < partition.committed) return `The group gets ${counted(partition.committed - place, "message")} again, from offset ${place} on.`;
    return "The group stays where it is.";
  }
  if (target === "end") return `The group skips the ${counted(lag, "message")} that it has not finished.`;
  if (target === "beginning") return stored === null ? "The group gets everything that is stored again." : `The group gets all ${counted(stored, "stored message")}, also those it has finished.`;
  return soon(moment);
}

const soon = (moment) =>
  moment ? `The group reads on with the first message pushed at ${time(new Date(moment))} or later: what it has finished since then comes again, what waits from before is skipped.` : "Choose a moment.";
