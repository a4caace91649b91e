// Dead letters by what they died of, and what can be done with many of them.
import { get, post, query, remove } from "./api.js";

export const PAGE = 1_000;
const IDS_MAX = 1_000; // in one call: each call is short, so that progress can be shown

/** An error without what differs from message to message: numbers, ids, quoted text. */
export function signature(error) {
  if (!error) return "No error was given";
  return error
    .split("\n")[0]
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, "…")
    .replace(/(["'`])(?:(?!\1).)*\1/g, "$1…$1")
    .replace(/“[^”]*”/g, "“…”")
    .replace(/\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b/gi, "…")
    .replace(/\d+(?:[.,:]\d+)*/g, "…")
    .slice(0, 160);
}

/** Lines of letters that died of the same, of one group on one queue. */
export function grouped(letters) {
  const lines = new Map();
  for (const letter of letters) {
    const sign = signature(letter.errorMessage);
    const key = JSON.stringify([letter.queue, letter.consumerGroup, sign]);
    const line = lines.get(key) ?? { key, sign, queue: letter.queue, group: letter.consumerGroup, letters: [], newest: letter.failedAt };
    line.letters.push(letter);
    lines.set(key, line);
  }
  return [...lines.values()];
}

export const list = (filter, offset, signal) => get(`dlq${query({ ...filter, limit: PAGE, offset })}`, { signal, exact: true });

/** The ids of all letters that match, page by page. `step(found)` is called in between; it may throw to stop. */
export async function collect(filter, matches, step) {
  const ids = [];
  for (let offset = 0, more = true; more; ) {
    const page = await list(filter, offset);
    ids.push(...page.messages.filter(matches).map((letter) => letter.id));
    offset += page.messages.length;
    more = page.pagination.hasMore && page.messages.length > 0;
    step(ids.length);
  }
  return ids;
}

/** Deliver letters again, some at a time. Answers how many were there. */
export const redrive = (ids, step) => inParts(ids, async (part) => (await post("dlq/redrive", { ids: part })).redriven, step);

/** Delete letters for good, some at a time. */
export const purge = (ids, step) => inParts(ids, async (part) => (await remove(`dlq${query({ ids: part.join(",") })}`)).purged, step, 100);

async function inParts(ids, call, step, size = IDS_MAX) {
  let done = 0;
  for (let at = 0; at < ids.length; at += size) {
    done += await call(ids.slice(at, at + size));
    step?.(Math.min(at + size, ids.length), ids.length);
  }
  return done;
}
