// One queue: what happens in it, who reads it, where its messages are, and its settings.
import { address, get, query as encoded, remove } from "../api.js";
import { count, counted, duration, rate } from "../format.js";
import { html } from "../html.js";
import { usePoll } from "../poll.js";
import { go, to } from "../router.js";
import { may } from "../session.js";
import { watch } from "../speed.js";
import { Chart } from "../ui/chart.js";
import { Confirm, OpenDialog } from "../ui/dialog.js";
import { say } from "../ui/notices.js";
import { Badge, Empty, Header, Polled, Section, Stat, Stats, Tabs } from "../ui/parts.js";
import { GroupTable } from "./group-table.js";
import { PauseButton, Paused } from "./pause.js";
import { PushMessage } from "./push-message.js";
import { Partitions } from "./queue-partitions.js";
import { Settings } from "./queue-settings.js";

const SECONDS = 3;
const TABS = [["", "Activity"], ["partitions", "Partitions"], ["groups", "Groups"], ["settings", "Settings"]];

async function load(queue, signal) {
  const [status, groups, unread] = await Promise.all([
    get(`status/${address("queues", queue)}${encoded({ limit: 1 })}`, { signal }),
    get("consumer-groups", { signal }),
    get("unread", { signal }),
  ]);
  watch(groups);
  return {
    ...status,
    lines: groups.filter((group) => group.queueName === queue),
    unread: unread.find((line) => line.queue === queue) ?? null,
  };
}

export function Queue({ queue, query }) {
  const poll = usePoll((signal) => load(queue, signal), [queue], SECONDS);
  const tab = TABS.some(([key]) => key === query.tab) ? query.tab : "";
  const options = poll.data?.queue.options;
  return html`<${Header} title=${queue} crumbs=${[["Queues", to(["queues"])]]} lead=${labels(poll.data?.queue)}>
      ${may("producer") && html`<${OpenDialog} label="Push a message" tone="primary" dialog=${(close) => html`<${PushMessage} queue=${queue} close=${close} done=${poll.refresh} />`} />`}
      ${may("admin") && html`<${PauseButton} queue=${queue} paused=${poll.data?.queue.paused} done=${poll.refresh} />`}
      ${may("admin") && html`<${OpenDialog} label="Clear …" dialog=${(close) => html`<${Clear} queue=${queue} close=${close} done=${poll.refresh} />`} />`}
      ${may("admin") && html`<${OpenDialog} label="Delete …" dialog=${(close) => html`<${Delete} queue=${queue} close=${close} />`} />`}
    <//>
    <${Tabs} label="About this queue" tabs=${TABS} current=${tab} href=${(key) => to(["queues", queue], { tab: key })} />
    ${tab === "partitions" && html`<${Partitions} queue=${queue} groups=${poll.data?.lines} group=${query.group} order=${query.order} total=${poll.data?.queue.partitionCount} />`}
    ${tab === "settings" && options && html`<${Settings} queue=${queue} options=${options} done=${poll.refresh} />`}
    <${Polled} poll=${poll}>
      ${(data) =>
        tab === "" ? html`<${Activity} data=${data} queue=${queue} />` : tab === "groups" ? html`<${GroupList} data=${data} queue=${queue} refresh=${poll.refresh} />` : null}
    <//>`;
}

const labels = (queue) => queue && [queue.namespace && `namespace ${queue.namespace}`, queue.task && `task ${queue.task}`].filter(Boolean).join(", ");

function Activity({ data, queue }) {
  const { totals, options, partitionCount } = data.queue;
  const known = data.throughput.filter((step) => step.unfinished !== null);
  const last = known.at(-1);
  const oldest = Math.max(0, ...data.lines.map((line) => line.maxTimeLag), data.unread?.seconds ?? 0);
  const steps = data.throughput.map((step) => (step.unfinished === null ? { ...step, ingestedPerSecond: null, processedPerSecond: null } : step));
  return html`<${Stats} label="Now">
      <${Stat} label="In" value=${rate(last?.ingestedPerSecond)} note="in the last counted minute" />
      <${Stat} label="Out" value=${rate(last?.processedPerSecond)} note="in the last counted minute" />
      <${Stat} label="Backlog" value=${count(totals.pending)} unit="messages" note=${oldest ? `oldest ${duration(oldest)}` : "nothing waits"} />
      <${Stat} label="Leased" value=${count(totals.processing)} unit="messages" />
      <${Stat} label="Retrying" value=${count(totals.failed)} unit="messages" tone=${totals.failed ? "warn" : ""} />
      <${Stat} label="Dead letters" value=${count(totals.deadLetter)} unit="messages" tone=${totals.deadLetter ? "warn" : ""} href=${to(["dead-letters"], { queue })} />
      <${Stat} label="Stored" value=${count(totals.total)} unit="messages" note=${options.maxSize ? `at most ${count(options.maxSize)} unfinished` : "no limit"} />
      <${Stat} label="Partitions" value=${count(partitionCount)} href=${to(["queues", queue], { tab: "partitions" })} />
    <//>
    ${data.queue.paused && html`<p class="remark warn"><${Paused} /> Consumers of this queue get nothing until it is resumed. Pushes go on.</p>`}
    ${data.unread && html`<p class="remark warn">No group reads ${data.lines.length === 0 ? "this queue" : counted(data.unread.partitions, "of its partitions", "of its partitions")}: ${counted(data.unread.messages, "message waits", "messages wait")} there. <code>queen pop ${queue}</code> takes one.</p>`}
    <${Section} title="The last hour" note="counted once a minute">
      ${known.length === 0
        ? html`<${Empty} command=${`queen push ${queue} '{"id": 1}'`}>Nothing was counted yet. The charts begin a minute after the first push.<//>`
        : html`<div class="charts">
            <${Chart} title="Messages per second" steps=${steps} show=${rate}
              lines=${[{ key: "ingestedPerSecond", label: "In", tone: "first", fill: true }, { key: "processedPerSecond", label: "Out", tone: "second", dash: true }]} />
            <${Chart} title="Backlog, messages" steps=${steps} show=${count} lines=${[{ key: "unfinished", label: "Unfinished", tone: "third", fill: true }]} />
          </div>`}
    <//>
    <${Section} title="Groups"><${GroupList} data=${data} queue=${queue} /><//>`;
}

function GroupList({ data, queue, refresh }) {
  if (data.lines.length === 0)
    return html`<${Empty} command=${`queen pop ${queue} --group billing`}>No group reads this queue. A group begins with its first pop.<//>`;
  const starting = data.groups.filter((group) => !group.complete).map((group) => group.name);
  return html`<${GroupTable} groups=${data.lines} refresh=${refresh} within />
    ${starting.length > 0 && html`<p class="note"><${Badge}>reaching<//> ${starting.join(", ")}: still on the way to partitions of this queue, so the lag will grow.</p>`}`;
}

function Clear({ queue, close, done }) {
  async function run() {
    const { messages } = await remove(address("queues", queue, "clear"));
    say(`${counted(messages, "message")} dropped from ${queue}.`);
    done();
  }
  return html`<${Confirm} title=${`Clear ${queue}?`} verb="Drop all messages" word=${queue} run=${run} close=${close}>
    <p>All stored messages of this queue are dropped, for every group. Its partitions, groups and settings stay. Leases end.</p>
  <//>`;
}

function Delete({ queue, close }) {
  async function run() {
    await remove(`resources/${address("queues", queue)}`);
    say(`The queue ${queue} is deleted.`);
    go(["queues"]);
  }
  return html`<${Confirm} title=${`Delete ${queue}?`} verb="Delete the queue" word=${queue} run=${run} close=${close}>
    <p>The queue goes with its messages, partitions, groups and dead letters. The next push to this name creates a new one.</p>
  <//>`;
}
