// Addresses: #/queues/orders?tab=groups. All of it is after the #, so any path in front of the server works.
import { useEffect, useState } from "preact/hooks";

/** An address within the dashboard: to(["queues", name], { group }). */
export function to(parts, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#/${parts.map(encodeURIComponent).join("/")}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export const go = (parts, values) => (location.hash = to(parts, values));

/** Change values of the address that is shown, without a new step in the history. */
export function replaceQuery(changes) {
  const { parts, query } = read();
  history.replaceState(null, "", to(parts, { ...query, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function read() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: Object.fromEntries(new URLSearchParams(search)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand, with a lone %
  }
}

export function useRoute() {
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
