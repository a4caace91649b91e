// Markup in template strings: html`<p class="x">${text}</p>`. Values are always text, never markup.
import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);
