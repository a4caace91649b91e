// Which page belongs to which address.
import { DeadLetters } from "./pages/dead-letters.js";
import { Groups } from "./pages/groups.js";
import { Ledger } from "./pages/ledger.js";
import { Message } from "./pages/message.js";
import { NotFound } from "./pages/not-found.js";
import { Overview } from "./pages/overview.js";
import { Partition } from "./pages/partition.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Server } from "./pages/server.js";
import { NamedEvents, Trace, Traces } from "./pages/traces.js";

export const SECTIONS = [
  { key: "", label: "Overview", icon: "M4 13h6V4H4zm0 7h6v-5H4zm10 0h6v-9h-6zm0-16v5h6V4z" },
  { key: "queues", label: "Queues", icon: "M4 5h16v4H4zm0 6h16v4H4zm0 6h10v3H4z" },
  { key: "groups", label: "Groups", icon: "M8 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zm8.5 0a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 20v-2c0-2.8 2.7-5 6-5s6 2.2 6 5v2zm14 0v-2c0-1.6-.6-3-1.6-4.1.7-.3 1.4-.4 2.1-.4 3 0 5.5 2 5.5 4.5v2z" },
  { key: "dead-letters", label: "Dead letters", icon: "M3 5h18v14H3zm2.5 2.5 6.5 5 6.5-5" },
  { key: "ledger", label: "Ledger", icon: "M5 3h14v18H5zm3 4v2h8V7zm0 5v2h8v-2zm0 5v1.5h5V17z" },
  { key: "traces", label: "Traces", icon: "M4 6h7M7 12h8M12 18h8M4 4v4M7 10v4M12 16v4" },
  { key: "server", label: "Server", icon: "M4 4h16v7H4zm0 9h16v7H4zM7.5 7.5h.01M7.5 16.5h.01" },
];

const ROUTES = [
  [[], Overview],
  [["queues"], Queues],
  [["queues", ":queue"], Queue],
  [["queues", ":queue", "partitions", ":partition"], Partition],
  [["messages", ":partition", ":id"], Message],
  [["groups"], Groups],
  [["dead-letters"], DeadLetters],
  [["ledger"], Ledger],
  [["traces"], Traces],
  [["traces", ":trace"], Trace],
  [["traces", "by-name", ":name"], NamedEvents],
  [["server"], Server],
];

export function find(parts) {
  for (const [pattern, Page] of ROUTES) {
    if (pattern.length !== parts.length) continue;
    if (!pattern.every((part, at) => part.startsWith(":") || part === parts[at])) continue;
    const named = pattern.map((part, at) => [part, parts[at]]).filter(([part]) => part.startsWith(":"));
    const args = Object.fromEntries(named.map(([part, value]) => [part.slice(1), value]));
    return { Page, args, section: parts[0] === "messages" ? "queues" : (parts[0] ?? "") };
  }
  return { Page: NotFound, args: {}, section: null };
}
