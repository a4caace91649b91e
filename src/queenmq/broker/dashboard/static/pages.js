// Which page belongs to which address.
import { DeadLetters } from "./pages/dead-letters.js";
import { Groups } from "./pages/groups.js";
import { Ledger } from "./pages/ledger.js";
import { NotFound } from "./pages/not-found.js";
import { Overview } from "./pages/overview.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";

export const SECTIONS = [
  { key: "", label: "Overview", icon: "M4 13h6V4H4zm0 7h6v-5H4zm10 0h6v-9h-6zm0-16v5h6V4z" },
  { key: "queues", label: "Queues", icon: "M4 5h16v4H4zm0 6h16v4H4zm0 6h10v3H4z" },
  { key: "groups", label: "Groups", icon: "M8 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zm8.5 0a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 20v-2c0-2.8 2.7-5 6-5s6 2.2 6 5v2zm14 0v-2c0-1.6-.6-3-1.6-4.1.7-.3 1.4-.4 2.1-.4 3 0 5.5 2 5.5 4.5v2z" },
  { key: "dead-letters", label: "Dead letters", icon: "M3 5h18v14H3zm2.5 2.5 6.5 5 6.5-5" },
  { key: "ledger", label: "Ledger", icon: "M5 3h14v18H5zm3 4v2h8V7zm0 5v2h8v-2zm0 5v1.5h5V17z" },
];

const ROUTES = [
  [[], Overview],
  [["queues"], Queues],
  [["queues", ":queue"], Queue],
  [["groups"], Groups],
  [["dead-letters"], DeadLetters],
  [["ledger"], Ledger],
];

export function find(parts) {
  for (const [pattern, Page] of ROUTES) {
    if (pattern.length !== parts.length) continue;
    if (!pattern.every((part, at) => part.startsWith(":") || part === parts[at])) continue;
    const named = pattern.map((part, at) => [part, parts[at]]).filter(([part]) => part.startsWith(":"));
    const args = Object.fromEntries(named.map(([part, value]) => [part.slice(1), value]));
    return { Page, args, section: parts[0] ?? "" };
  }
  return { Page: NotFound, args: {}, section: null };
}
