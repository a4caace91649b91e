// An address that leads nowhere.
import { html } from "../html.js";
import { to } from "../router.js";
import { Header } from "../ui/parts.js";

export const NotFound = () => html`<${Header} title="Nothing is here" />
  <p>The dashboard has no page at this address. <a href=${to([])}>Go to the overview.</a></p>`;
