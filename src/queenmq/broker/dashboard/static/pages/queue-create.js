// Create a queue with the default settings; they can be changed on its page.
import { useState } from "preact/hooks";

import { post } from "../api.js";
import { html } from "../html.js";
import { go } from "../router.js";
import { Confirm } from "../ui/dialog.js";
import { say } from "../ui/notices.js";

export function CreateQueue({ close, done }) {
  const [name, setName] = useState("");
  const [namespace, setNamespace] = useState("");
  async function run() {
    await post("configure", { queue: name, ...(namespace && { namespace }) });
    say(`The queue ${name} is there.`);
    done();
    go(["queues", name], { tab: "settings" });
  }
  return html`<${Confirm} title="Create a queue" verb="Create" tone="primary" run=${run} close=${close}>
    <p>It begins with the default settings. The first push to a name does the same.</p>
    <label class="field">Name<input value=${name} onInput=${(e) => setName(e.target.value)} maxlength="255" required autocomplete="off" /></label>
    <label class="field">Namespace, if you use them<input value=${namespace} onInput=${(e) => setNamespace(e.target.value)} maxlength="255" autocomplete="off" /></label>
  <//>`;
}
