// Numbers as people read them, always with a unit. What is not known is a dash, never a zero.
export const UNKNOWN = "–";
export const QUEUE_MODE = "__QUEUE_MODE__";

const whole = new Intl.NumberFormat("en");
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** 1,234,567; from ten million on 12.3 M. */
export function count(value) {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) < 10_000_000) return whole.format(value);
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]])
    if (Math.abs(value) >= size) return `${(value / size).toPrecision(3)} ${unit}`;
}

/** "1 message", "2 messages". */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Messages per second; small rates per minute. */
export function rate(perSecond) {
  if (!known(perSecond)) return UNKNOWN;
  if (perSecond === 0) return "0 /s";
  if (perSecond < 0.1) return `${short(perSecond * 60)} /min`;
  return `${short(perSecond)} /s`;
}

const short = (value) => (value >= 100 ? whole.format(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, ""));

/** 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  for (const [size, unit, less, small] of [[86_400, "d", 3_600, "h"], [3_600, "h", 60, "min"], [60, "min", 1, "s"]])
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / less);
      return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
    }
  return `${Math.round(seconds)} s`;
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  for (const [size, unit] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]])
    if (value >= size) return `${(value / size).toFixed(value / size >= 100 ? 0 : 1)} ${unit}`;
  return `${whole.format(value)} B`;
}

export const percent = (part) => (known(part) ? `${(part * 100).toFixed(part > 0.999 && part < 1 ? 2 : 1)} %` : UNKNOWN);

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric" });

export const clock = (moment) => (moment ? clockFormat.format(new Date(moment)) : UNKNOWN);

/** The time of day; with the date unless it is today. */
export function time(moment) {
  if (!moment) return UNKNOWN;
  const date = new Date(moment);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(date) : `${dayFormat.format(date)}, ${clock(date)}`;
}

export const secondsSince = (moment) => (moment ? Math.max(0, (Date.now() - new Date(moment)) / 1000) : null);
/** In one unit: 40 s ago, 3 min ago. */
export const ago = (moment) => (moment ? `${duration(Math.floor(secondsSince(moment))).split(" ").slice(0, 2).join(" ")} ago` : UNKNOWN);

/** The name of a group as people know it. */
export const groupName = (name) => (name === QUEUE_MODE ? "queue mode" : name);

/** A word for a shell, quoted if it must be. */
export const shell = (word) => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
