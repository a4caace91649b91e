// The server asks for a token. It stays in this tab: it is gone when the tab is closed.
import { useState } from "preact/hooks";

import { token } from "./api.js";
import { connection } from "./connection.js";
import { html } from "./html.js";
import { open } from "./session.js";
import { Refusal } from "./ui/dialog.js";
import { Header } from "./ui/parts.js";

export function SignIn({ reason, done }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(reason && token.get() ? { message: reason, hint: "" } : null);
  const [busy, setBusy] = useState(false);
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    token.set(text.trim().replace(/^Bearer\s+/i, ""));
    try {
      await open();
      connection.refusal = null;
      done();
    } catch (failure) {
      token.set(null);
      setError(failure);
      setBusy(false);
    }
  }
  return html`<main class="alone">
    <img src="dashboard/icon.svg" alt="" width="40" height="40" />
    <${Header} title="Sign in to Queen" />
    <p>This server asks for a token (JWT). It is kept in this tab and sent to this server only.</p>
    <form onSubmit=${submit}>
      <label class="field">Token<input type="password" value=${text} onInput=${(e) => setText(e.target.value)} autocomplete="off" required /></label>
      ${error && html`<${Refusal} error=${error} />`}
      <button type="submit" class="primary" disabled=${busy}>${busy ? "Signing in …" : "Sign in"}</button>
    </form>
    <p class="note">What your roles do not allow is not shown as a button. <code>read-only</code> sees all numbers.</p>
  </main>`;
}
