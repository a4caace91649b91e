// Who looks at this page, and what their roles let them do. Without tokens, everybody may do everything.
import { send, token } from "./api.js";

const ENOUGH = { producer: ["producer", "admin"], consumer: ["consumer", "admin"], admin: ["admin"] };

export const session = { version: "", subject: null, roles: null };

/** Whether a button for this role is shown. The server checks again, whatever this says. */
export const may = (role) => session.roles === null || session.roles.some((each) => ENOUGH[role].includes(each));

/** Ask the server with the token of this tab; throws Failed with status 401 if it wants another one. */
export async function open(signal) {
  Object.assign(session, await send("GET", "dashboard/session", undefined, { signal }));
}

export function signOut() {
  token.set(null);
  location.reload();
}
