// The beginning: find out whether a token is needed, then show the page of the address.
import { render } from "preact";
import { useEffect, useReducer, useState } from "preact/hooks";

import { connection } from "./connection.js";
import { html } from "./html.js";
import { useRoute } from "./router.js";
import { open } from "./session.js";
import { Shell } from "./shell.js";
import { SignIn } from "./sign-in.js";
import { Failure, Loading } from "./ui/parts.js";
import { find } from "./pages.js";

function App() {
  const [state, set] = useState("asking"); // asking, open, signed out, or what went wrong
  const [, redraw] = useReducer((n) => n + 1, 0);
  const route = useRoute();

  const ask = () =>
    open().then(
      () => set("open"),
      (error) => set(error.status === 401 || error.status === 403 ? "signed out" : error),
    );
  useEffect(() => {
    ask();
    return connection.subscribe(redraw);
  }, []);
  useEffect(() => {
    if (!connection.away && state instanceof Error) ask();
  }, [connection.away]);
  useEffect(() => {
    if (connection.refusal && state === "open") set("signed out");
  }, [connection.refusal]);

  const path = route.parts.join("/");
  useEffect(() => {
    document.getElementById("title")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [path, state]);

  if (state === "asking") return html`<${Loading} />`;
  if (state === "signed out") return html`<${SignIn} reason=${connection.refusal} done=${() => set("open")} />`;
  if (state instanceof Error) return html`<main class="alone"><${Failure} error=${state} retry=${ask} /></main>`;
  const { Page, args, section } = find(route.parts);
  return html`<${Shell} section=${section}><${Page} key=${path} ...${args} query=${route.query} /><//>`;
}

render(html`<${App} />`, document.getElementById("app"));
