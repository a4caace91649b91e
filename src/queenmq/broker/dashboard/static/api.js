// The public API. A token, if there is one, is kept for this tab only.
import { connection } from "./connection.js";

const TOKEN = "queen-token";
const ANSWER_MS_MAX = 20_000;

/** An answer that is not 2xx, or no answer at all. `code` is the API's, or UNREACHABLE. */
export class Failed extends Error {
  constructor(message, { status = 0, code = "UNREACHABLE", hint = "", body = null } = {}) {
    super(message);
    Object.assign(this, { status, code, hint, body });
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

/** An address with each part encoded: address("queues", "a/b") is "queues/a%2Fb". */
export const address = (...parts) => parts.map(encodeURIComponent).join("/");

/** A query without what is missing. */
export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** Send a request to a path of this server; answers the decoded body (null if there is none) or throws Failed. */
export async function send(method, path, body, { signal, rawBody, exact } = {}) {
  const headers = {};
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined || rawBody !== undefined) headers["content-type"] = "application/json";
  let answer, text;
  try {
    const deadline = AbortSignal.timeout(ANSWER_MS_MAX);
    answer = await fetch(path, {
      method,
      headers,
      body: rawBody ?? (body === undefined ? undefined : JSON.stringify(body)),
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const reason = error.name === "TimeoutError" ? `did not answer within ${ANSWER_MS_MAX / 1000} s` : "cannot be reached";
    connection.lost(`The server ${reason}.`);
    throw new Failed(`The server ${reason}.`);
  }
  const decoded = decode(text, exact ? keepDigits : undefined);
  if (answer.ok) {
    connection.answered();
    return decoded;
  }
  const failure = new Failed(decoded?.error ?? `The server answered ${answer.status}.`, {
    status: answer.status,
    code: decoded?.code ?? "UNKNOWN",
    hint: decoded?.hint ?? "",
    body: decoded,
  });
  if (answer.status === 401) connection.signedOut(failure.message);
  else if (answer.status >= 502 && failure.code === "UNKNOWN") connection.lost(failure.message);
  else connection.answered();
  throw failure;
}

export const get = (path, options) => send("GET", `api/v1/${path}`, undefined, options);
export const post = (path, body) => send("POST", `api/v1/${path}`, body);
export const remove = (path) => send("DELETE", `api/v1/${path}`);

// JavaScript has no whole numbers beyond 2^53: with `exact` they stay the digits that were pushed.
function keepDigits(_key, value, context) {
  const digits = typeof value === "number" && /^-?\d{16,}$/.test(context?.source ?? "");
  return digits && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

function decode(text, reviver) {
  try {
    return text ? JSON.parse(text, reviver) : null;
  } catch {
    return null;
  }
}
