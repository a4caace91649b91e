// The settings of a queue, each with its default and what it does; admins change them.
import { useState } from "preact/hooks";

import { post } from "../api.js";
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { may } from "../session.js";
import { complain, say } from "../ui/notices.js";

const SECONDS = "seconds";
const SETTINGS = [
  ["Delivery", [
    ["leaseTime", 300, SECONDS, 1, 604_800, (n) => `A consumer that pops a partition keeps it for ${duration(n)}; then others get its messages.`],
    ["priority", 0, "", -1_000_000, 1_000_000, () => "Among the queues of a namespace or task, higher ones are served first."],
    ["delayedProcessing", 0, SECONDS, 0, 31_536_000, (n) => (n ? `A message is delivered when it is ${duration(n)} old.` : "Messages are delivered at once.")],
    ["windowBuffer", 0, SECONDS, 0, 604_800, (n) => (n ? `A partition is delivered when nothing was pushed to it for ${duration(n)}.` : "A partition need not be quiet to be delivered.")],
    ["maxWaitTimeSeconds", 0, SECONDS, 0, 315_360_000, (n) => (n ? `A message older than ${duration(n)} is given up instead of delivered.` : "No message is too old to be delivered.")],
  ]],
  ["Failures", [
    ["retryLimit", 3, "retries", 0, 1_000, (n) => (n ? `A message that fails is delivered ${n === 1 ? "once" : `${n} times`} more before it is given up.` : "The first failure of a message is its last.")],
    ["retryDelay", 1_000, "ms", 0, 86_400_000, (n) => `The pause before the first retry is ${duration(n / 1000)}.`],
    ["retryBackoff", 1, "", 1, 10, (n) => (n === 1 ? "The pauses before all retries are equally long." : `Each further pause is ${n} times as long as the one before.`)],
    ["deadLetterQueue", true, "", null, null, (on) => (on ? "What is given up is kept as a dead letter." : "What is given up is dropped, and counts as expired.")],
  ]],
  ["Size and storage", [
    ["maxSize", 0, "messages", 0, 1e12, (n) => (n ? `Pushes are refused while ${count(n)} messages are unfinished.` : "There is no limit.")],
    ["retentionEnabled", true, "", null, null, (on) => (on ? "Retention deletes what the next three settings say." : "Retention deletes nothing here.")],
    ["retentionSeconds", 0, SECONDS, 0, 315_360_000, (n) => (n ? `Messages older than ${duration(n)} are deleted, read or not.` : "Age alone deletes no message.")],
    ["completedRetentionSeconds", 604_800, SECONDS, 0, 315_360_000, (n) => (n ? `What every group has finished is deleted when it is older than ${duration(n)}.` : "What is finished stays, to be replayed.")],
    ["deadLetterRetentionSeconds", 2_592_000, SECONDS, 0, 315_360_000, (n) => (n ? `Dead letters are deleted ${duration(n)} after they failed.` : "Dead letters stay until somebody removes them.")],
    ["dedupWindowSeconds", 3_600, SECONDS, 0, 2_592_000, (n) => (n ? `A transaction id is recognised as a duplicate for ${duration(n)}.` : "Duplicates are not recognised.")],
    ["encryptionEnabled", false, "", null, null, (on) => (on ? "Payloads are stored encrypted." : "Payloads are stored as they are.")],
  ]],
];

export function Settings({ queue, options, done }) {
  const [changed, setChanged] = useState({});
  const [busy, setBusy] = useState(false);
  const names = Object.keys(changed);
  const change = (name, value) => {
    const { [name]: _, ...rest } = changed;
    setChanged(value === options[name] ? rest : { ...rest, [name]: value });
  };
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    try {
      await post("configure", { queue, options: changed });
      say(`Saved: ${names.join(", ")}.`);
      setChanged({});
      await done();
    } catch (error) {
      complain(error);
    }
    setBusy(false);
  }
  return html`<form class="settings" onSubmit=${submit}>
    ${SETTINGS.map(
      ([title, settings]) => html`<fieldset><legend>${title}</legend>
        <div class="card">${settings.map((setting) => html`<${Setting} setting=${setting} value=${changed[setting[0]] ?? options[setting[0]]} changed=${setting[0] in changed} change=${change} />`)}</div>
      </fieldset>`,
    )}
    ${may("admin")
      ? html`<div class="form-foot">
          <button type="submit" class="primary" disabled=${busy || names.length === 0}>${busy ? "Saving …" : names.length ? `Save ${names.join(", ")}` : "Nothing is changed"}</button>
          ${names.length > 0 && html`<button type="button" onClick=${() => setChanged({})}>Undo</button>`}
        </div>`
      : html`<p class="note">Changing settings needs the role admin.</p>`}
  </form>`;
}

function Setting({ setting: [name, normal, unit, least, most, says], value, changed, change }) {
  const id = `setting-${name}`;
  const input =
    typeof normal === "boolean"
      ? html`<input id=${id} type="checkbox" checked=${value} disabled=${!may("admin")} onChange=${(e) => change(name, e.target.checked)} aria-describedby=${`${id}-says`} />`
      : html`<input id=${id} type="number" class="num" value=${value} min=${least} max=${most} step="1" required disabled=${!may("admin")} onInput=${(e) => change(name, e.target.valueAsNumber)} aria-describedby=${`${id}-says`} />`;
  const told = typeof normal === "boolean" ? (normal ? "on" : "off") : `${count(normal)}${unit && ` ${unit}`}`;
  return html`<div class=${`setting ${changed ? "changed" : ""}`}>
    <label for=${id}>${name}</label>
    <span class="entry">${input}${unit && html`<span class="unit">${unit}</span>`}</span>
    <p id=${`${id}-says`}>${Number.isNaN(value) ? "This needs a number." : says(value)} <span class="note">Default: ${told}.</span></p>
  </div>`;
}
