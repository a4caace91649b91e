// What needs attention: one sentence for each finding, the worst first, each with the page where something can be done.
// What has the tone "info" is advice: it is shown too, and nothing is unhealthy because of it.
import { count, counted, duration, groupName } from "./format.js";
import { to } from "./router.js";

const GROWTH_MIN = 100; // messages more within five minutes, and a fifth of the backlog: less is no trend
const GROWTH_PART = 0.2;
const FULL_PART = 0.9; // of a queue's limit
const SHOWN_MAX = 8; // of one kind; the rest is one line

const WORST = ["bad", "warn", "info"];

/** `known`: what the polls of the overview have found; parts that are missing are not judged here. */
export function findings(known) {
  const found = [
    ...ready(known.ready),
    ...maintenance(known.maintenance, known.popMaintenance),
    ...ledger(known.ledger),
    ...doctor(known.doctor),
    ...limited(known.groups, behind, ["groups"]),
    ...limited(known.unread, unread, ["queues"]),
    ...limited(known.rates, growing, ["queues"]),
    ...deadLetters(known.traffic),
  ];
  return found.sort((a, b) => WORST.indexOf(a.tone) - WORST.indexOf(b.tone));
}

function ready(answer) {
  return (answer?.parts ?? []).map((part) => ({
    tone: "bad",
    what: `${part.part}: ${part.problem}`,
    hint: part.hint,
  }));
}

function maintenance(push, pop) {
  const found = [];
  if (push?.enabled) found.push({ tone: "warn", what: "Pushes are kept in the spool on purpose (maintenance).", hint: "Consumers do not get them until maintenance ends." });
  if (pop?.enabled) found.push({ tone: "warn", what: "Deliveries are paused in all servers (maintenance).", hint: "Consumers get nothing until they are resumed." });
  if (push?.bufferedMessages > 0)
    found.push({ tone: "warn", what: `${counted(push.bufferedMessages, "message waits", "messages wait")} in the spool of this server.`, hint: "They are stored as soon as PostgreSQL takes them." });
  if (push?.refusedMessages > 0)
    found.push({ tone: "bad", what: `${counted(push.refusedMessages, "spooled message was", "spooled messages were")} refused by PostgreSQL and set aside.`, hint: "The log of the server says where they are." });
  return found;
}

function ledger(lines) {
  return (lines ?? [])
    .filter((line) => !line.balanced)
    .map((line) => ({
      tone: "bad",
      what: `The ledger of ${groupName(line.group)} on ${line.queue} does not balance.`,
      hint: "A message is missing or counted twice. “queen verify” has the details.",
      href: to(["ledger"]),
    }));
}

function doctor(checkup) {
  return (checkup?.checks ?? [])
    .filter((check) => check.severity !== "ok")
    .map((check) => ({ tone: check.severity === "problem" ? "bad" : "info", what: `${check.name}: ${check.detail}`, hint: check.hint }));
}

function behind(group) {
  const name = `${groupName(group.name)} on ${group.queueName}`;
  const href = to(["queues", group.queueName], { tab: "groups", group: group.name });
  if (group.paused) return { tone: "warn", what: `Deliveries of ${name} are paused.`, hint: "Consumers get nothing until it is resumed.", href, size: group.totalLag };
  const backlog = `${counted(group.totalLag, "message")}, the oldest ${duration(group.maxTimeLag)} old`;
  if (group.state === "Dead")
    return { tone: "warn", what: `No consumer has got a message as ${name} yet.`, hint: `${backlog}.`, href, size: group.totalLag };
  if (group.state === "Lagging")
    return { tone: "warn", what: `${name} is behind: ${backlog}.`, hint: group.members ? "" : "No consumer holds a lease.", href, size: group.totalLag };
  return null;
}

function unread(line) {
  const part = line.partitions === 1 ? "1 partition" : `${count(line.partitions)} partitions`;
  return {
    tone: "warn",
    what: `No group reads ${line.queue}: ${counted(line.messages, "message waits", "messages wait")} in ${part}.`,
    hint: `The oldest is ${duration(line.seconds)} old.`,
    href: to(["queues", line.queue]),
    size: line.messages,
  };
}

function growing(line) {
  const href = to(["queues", line.queue]);
  if (line.maxQueueSize > 0 && line.unfinished >= FULL_PART * line.maxQueueSize)
    return {
      tone: line.unfinished >= line.maxQueueSize ? "bad" : "warn",
      what: `${line.queue} is ${Math.floor((100 * line.unfinished) / line.maxQueueSize)} % full.`,
      hint: `${counted(line.unfinished, "unfinished message")}; pushes are refused from ${count(line.maxQueueSize)} on.`,
      href,
      size: line.unfinished,
    };
  if (line.growth >= GROWTH_MIN && line.growth >= GROWTH_PART * line.unfinished)
    return {
      tone: "warn",
      what: `The backlog of ${line.queue} grows: ${count(line.growth)} messages more than ${duration(line.growthSeconds)} before.`,
      hint: `${counted(line.unfinished, "message")} unfinished.`,
      href,
      size: line.growth,
    };
  return null;
}

function deadLetters(traffic) {
  const dead = traffic?.totals.deadLettered ?? 0;
  if (dead === 0) return [];
  return [{ tone: "warn", what: `${counted(dead, "message")} became dead letters in the last hour.`, href: to(["dead-letters"]) }];
}

/** The largest findings of one kind; a line for all others. */
function limited(lines, judge, place) {
  const found = (lines ?? []).map(judge).filter(Boolean).sort((a, b) => b.size - a.size);
  const rest = found.length - SHOWN_MAX;
  if (rest <= 0) return found;
  return [...found.slice(0, SHOWN_MAX), { tone: "info", what: `${counted(rest, "more finding")} like the ones above.`, href: to(place) }];
}
