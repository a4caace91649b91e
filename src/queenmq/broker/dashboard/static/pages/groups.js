// Every group on every queue.
import { get } from "../api.js";
import { counted, groupName } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { replaceQuery } from "../router.js";
import { watch } from "../speed.js";
import { Empty, Header, Polled } from "../ui/parts.js";
import { GroupTable } from "./group-table.js";

const SECONDS = 3;

async function load(signal) {
  const groups = await get("consumer-groups", { signal });
  watch(groups);
  return groups;
}

export function Groups({ query }) {
  const poll = usePoll(load, [], SECONDS);
  const search = (query.search ?? "").toLowerCase();
  return html`<${Header} title="Groups" lead="Each group reads a queue at its own pace. Lag is what it has yet to finish." />
    <div class="filters" role="search">
      <label class="field inline"><span class="off-screen">Search groups</span><input type="search" placeholder="Search by group or queue" value=${query.search ?? ""} onInput=${(e) => replaceQuery({ search: e.target.value })} /></label>
    </div>
    <${Polled} poll=${poll}>${(groups) => html`<${List} groups=${groups} search=${search} refresh=${poll.refresh} />`}<//>`;
}

function List({ groups, search, refresh }) {
  if (groups.length === 0) return html`<${Empty} command="queen pop orders --group billing">No consumer group has asked for anything yet. A group begins with its first pop.<//>`;
  const found = groups.filter((group) => `${groupName(group.name)} ${group.name} ${group.queueName}`.toLowerCase().includes(search));
  if (found.length === 0) return html`<${Empty} command="queen groups">None of the ${counted(groups.length, "group")} is named like this.<//>`;
  return html`<p class="note num">${counted(found.length, "line")}: a group on a queue each.</p><${GroupTable} groups=${found} refresh=${refresh} />`;
}
