// What all dashboards ask for, in one request: parts that the server makes once for all of them.
import { Failed, query, send } from "./api.js";
import { usePoll } from "./poll.js";

/** One poll for several parts. Answers { part: { data, error, at, refresh } }; a part that fails does not fail the others. */
export function useNow(names, seconds, path = "now") {
  const poll = usePoll((signal) => send("GET", `dashboard/${path}${query({ parts: names.join() })}`, undefined, { signal }), [], seconds);
  return Object.fromEntries(names.map((name) => [name, part(poll, name)]));
}

function part({ data, error, at, refresh }, name) {
  const answer = data?.[name];
  if (!answer) return { data: undefined, error, at, refresh };
  // /ready answers 503 when it says what is in the way: that is an answer here.
  if (answer.status < 300 || name === "ready") return { data: answer.body, error, at, refresh };
  const { body, status } = answer;
  return { data: undefined, error: new Failed(body.error, { status, code: body.code, hint: body.hint }), at: null, refresh };
}
