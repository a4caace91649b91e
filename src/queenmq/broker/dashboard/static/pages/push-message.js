// Push one message: a test message, or a copy of another one that was edited.
import { useState } from "preact/hooks";

import { send } from "../api.js";
import { html } from "../html.js";
import { Confirm } from "../ui/dialog.js";
import { say } from "../ui/notices.js";

/** `payload` is JSON text and is sent as it was typed, digit by digit. `pushed(result)` runs after it is stored. */
export function PushMessage({ queue, partition = "Default", payload = '{\n  "test": true\n}', headers, title, note, close, done, pushed }) {
  const [form, setForm] = useState({ queue, partition, payload, transactionId: "" });
  const field = (name) => ({ value: form[name], onInput: (e) => setForm({ ...form, [name]: e.target.value }) });
  const problem = fault(form.payload);
  async function run() {
    const item = JSON.stringify({
      queue: form.queue,
      partition: form.partition || "Default",
      ...(form.transactionId && { transactionId: form.transactionId }),
      ...(headers && { headers }),
    });
    const [result] = await send("POST", "api/v1/push", undefined, { rawBody: `{"items":[${item.slice(0, -1)},"payload":${form.payload}}]}` });
    if (result.status === "duplicate") say(`A message with this transaction id is already in ${form.queue}: nothing was stored.`, "warn");
    else if (result.status === "buffered") say("PostgreSQL is away: the message is safe in the spool and is stored later.", "warn");
    else say(`Stored in ${form.queue}, partition ${form.partition || "Default"}.`);
    await pushed?.(result);
    done?.();
  }
  return html`<${Confirm} title=${title ?? `Push a message to ${queue}`} verb="Push" tone="primary" run=${run} close=${close}>
    ${note}
    <div class="fields">
      ${title && html`<label class="field">Queue<input ...${field("queue")} required maxlength="255" /></label>`}
      <label class="field">Partition<input ...${field("partition")} maxlength="255" /></label>
      <label class="field">Transaction id, if it has one<input ...${field("transactionId")} autocomplete="off" /></label>
    </div>
    <label class="field">Payload, in JSON<textarea rows="9" spellcheck="false" aria-invalid=${Boolean(problem)} ...${field("payload")}></textarea></label>
    <p class=${problem ? "remark bad" : "note"} role="status">${problem ?? "Any JSON value."}</p>
  <//>`;
}

function fault(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is not JSON yet: ${error.message}`;
  }
}
