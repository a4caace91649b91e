// How fast a group's lag changes, from what this page has seen, and so when the group will have caught up.
const SEEN_MS_MAX = 120_000;
const SEEN_MS_MIN = 8_000; // a shorter time says nothing
const seen = new Map();

/** Remember how far groups are behind now. */
export function watch(groups) {
  const now = Date.now();
  for (const group of groups) {
    const key = `${group.queueName}\n${group.name}`;
    const samples = (seen.get(key) ?? []).filter(([at]) => now - at <= SEEN_MS_MAX);
    samples.push([now, group.totalLag]);
    seen.set(key, samples);
  }
}

/** Messages per second by which the lag falls; null as long as that is not known. */
export function fall(group) {
  const samples = seen.get(`${group.queueName}\n${group.name}`) ?? [];
  if (samples.length < 2) return null;
  const [[from, before], [to, after]] = [samples[0], samples.at(-1)];
  return to - from < SEEN_MS_MIN ? null : ((before - after) * 1000) / (to - from);
}

/** Seconds until the group has read everything; 0 if it has, null if that is not known, Infinity if its lag does not fall. */
export function secondsToCatchUp(group) {
  if (group.totalLag === 0) return 0;
  const speed = fall(group);
  if (speed === null) return null;
  return speed > 0 ? group.totalLag / speed : Infinity;
}
