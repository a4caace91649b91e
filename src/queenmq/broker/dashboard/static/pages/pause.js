// Pause and resume the deliveries of a queue, or of one group on it.
import { address, post } from "../api.js";
import { groupName } from "../format.js";
import { html } from "../html.js";
import { Confirm, OpenDialog } from "../ui/dialog.js";
import { say } from "../ui/notices.js";
import { Badge } from "../ui/parts.js";

/** A button that asks first. Without `group`, the queue itself is meant; `paused` says how it is now. */
export function PauseButton({ queue, group, paused, done }) {
  const verb = paused ? "Resume" : "Pause";
  const name = group === undefined ? queue : `${groupName(group)} on ${queue}`;
  return html`<${OpenDialog} label=${`${verb} …`} name=${`${verb} ${name}`} dialog=${(close) => html`<${Ask} queue=${queue} group=${group} paused=${paused} verb=${verb} name=${name} close=${close} done=${done} />`} />`;
}

function Ask({ queue, group, paused, verb, name, close, done }) {
  const path = group === undefined ? address("queues", queue) : address("consumer-groups", group, "queues", queue);
  async function run() {
    const { changed } = await post(`${path}/${verb.toLowerCase()}`);
    if (paused && !changed) say(`${name} is not paused itself: its queue is. Resume ${queue}.`);
    else say(paused ? `Deliveries of ${name} go on.` : `Deliveries of ${name} are paused.`);
    done();
  }
  return html`<${Confirm} title=${`${verb} ${name}?`} verb=${verb} tone=${paused ? "primary" : "bad"} run=${run} close=${close}>
    <p>${paused ? "Consumers get messages again." : "Consumers get no further messages until it is resumed. They keep what they have, and pushes go on."}</p>
  <//>`;
}

export const Paused = () => html`<${Badge} tone="warn" title="Consumers get nothing until it is resumed.">paused<//>`;
