// Asks again and again while somebody looks: not in a hidden tab, not while the server is away, rarely after failures.
import { useCallback, useEffect, useReducer, useRef } from "preact/hooks";

import { connection } from "./connection.js";

const FAILURES_MAX = 4; // after so many failures in a row the pause does not grow any more

/**
 * What `load(signal)` answers, asked again every `seconds`, and at once when a value of `keys` changes.
 * Answers { data, error, at, refresh }. After a failure, data is what was there before, and error says why it is old.
 * With `seconds` 0 it asks once.
 */
export function usePoll(load, keys, seconds) {
  const [, redraw] = useReducer((n) => n + 1, 0);
  const state = useRef({ data: undefined, error: null, at: null });
  const again = useRef(() => {});
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    let timer = null;
    let running = null;
    let failures = 0;
    let stopped = false;
    let due = 0;
    state.current = { data: undefined, error: null, at: null };
    redraw();

    async function run() {
      clearTimeout(timer);
      running?.abort();
      const own = (running = new AbortController());
      try {
        const data = await latest.current(own.signal);
        if (stopped || own !== running) return;
        failures = 0;
        state.current = { data, error: null, at: new Date() };
      } catch (error) {
        if (stopped || own !== running) return;
        failures = Math.min(failures + 1, FAILURES_MAX);
        state.current = { ...state.current, error };
      }
      redraw();
      plan(seconds * 1000 * 2 ** failures);
    }
    function plan(pause) {
      clearTimeout(timer);
      if (!seconds) return;
      due = Date.now() + pause;
      if (!document.hidden && !connection.away) timer = setTimeout(run, pause);
    }
    function wake() {
      if (document.hidden || connection.away) clearTimeout(timer);
      else if (failures || (seconds && Date.now() >= due)) run();
      else if (seconds) plan(Math.max(0, due - Date.now()));
    }
    again.current = run;
    document.addEventListener("visibilitychange", wake);
    const unsubscribe = connection.subscribe(wake);
    run();
    return () => {
      stopped = true;
      clearTimeout(timer);
      running?.abort();
      document.removeEventListener("visibilitychange", wake);
      unsubscribe();
    };
  }, [...keys, seconds]);

  const refresh = useCallback(() => again.current(), []);
  return { ...state.current, refresh };
}
