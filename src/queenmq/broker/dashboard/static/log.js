// Reading the log of a partition by offset, without a group and without a lease.
import { get, query, send } from "./api.js";

export const PAGE = 20;
const PAGE_BYTES = 256 * 1024;
const SCAN_BYTES = 1024 * 1024;
const SCAN_MAX = 5_000; // messages that a search for a text looks at before it asks again

async function fetchFrom(queue, partition, offset, maxBytes, signal) {
  const body = { entries: [{ queue, partition, offset, maxBytes }], maxBytes };
  const [entry] = (await send("POST", "api/v1/fetch", body, { signal, exact: true })).entries;
  if (entry.error && entry.error !== "OFFSET_OUT_OF_RANGE") throw new Error(REASONS[entry.error] ?? entry.error);
  return entry;
}

const REASONS = {
  UNKNOWN_TOPIC_OR_PARTITION: "There is no such queue, or no such partition in it.",
  ENCRYPTION_REQUIRED: "The queue is encrypted, and this server does not have the key.",
};

/** The ends of the log: offsets from `start` until before `next`. */
export async function ends(queue, partition, signal) {
  const entry = await fetchFrom(queue, partition, 0, 1, signal);
  return { start: entry.logStartOffset, next: entry.highWatermark };
}

/** A page of messages from an offset on. */
export async function page(queue, partition, offset, signal) {
  const entry = await fetchFrom(queue, partition, offset, PAGE_BYTES, signal);
  return { records: entry.records.slice(0, PAGE), start: entry.logStartOffset, next: entry.highWatermark };
}

/** The offset of the first message pushed at a moment or later: a search by halves, a dozen reads for a million messages. */
export async function offsetAt(queue, partition, moment) {
  let { start, next } = await ends(queue, partition);
  while (start < next) {
    const middle = Math.floor((start + next) / 2);
    const [record] = (await fetchFrom(queue, partition, middle, 1)).records;
    if (record && new Date(record.ts) < moment) start = middle + 1;
    else next = middle;
  }
  return start;
}

/** The first message from an offset on whose payload or transaction id has this text; says how far it has looked. */
export async function find(queue, partition, text, from) {
  const wanted = text.toLowerCase();
  let offset = from;
  for (;;) {
    const entry = await fetchFrom(queue, partition, offset, SCAN_BYTES);
    for (const record of entry.records)
      if (`${record.transactionId} ${JSON.stringify(record.payload)}`.toLowerCase().includes(wanted)) return { offset: record.offset, found: true };
    if (entry.records.length === 0) return { offset, found: false, ended: true };
    offset = entry.records.at(-1).offset + 1;
    if (offset - from >= SCAN_MAX) return { offset, found: false, ended: false };
  }
}

/** The id of a partition, which messages of it know; null while it stores none. */
export async function partitionId(queue, partition, signal) {
  const { messages } = await get(`messages${query({ queue, partition, limit: 1 })}`, { signal });
  return messages[0]?.partitionId ?? null;
}
