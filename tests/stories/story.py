"""The language of the stories: one line is one thing that happens, and what came of it.

    config   orders lease_seconds=30 namespace=shop     settings, namespace and task of a queue
    group    billing alice bert mode=new                these consumers pop for this group (else: workers)
    push     orders/ann 1 2 ids=a,b -> 0 1              values; ids; the offsets, if they matter
    pop      alice orders -> ann: 1 2, bob: 7           any partition, or orders/ann; or: nothing
    pop      alice batch=3 partitions=2 lease=60 auto mode=new namespace=shop task=mail -> …
    ack      alice ann 1 2                              what alice got of ann; without values: all of it
    ack      alice ann @7 x QN411                       by offset; refused. "already": done before, no lease
    fail     alice ann 2 -> dead 2                      also retry, dlq; what became a dead letter
    renew    alice ann 60        release alice ann
    transact alice ann 1 and push invoices/ann 10       acks and pushes joined by "and"; all or nothing
    outbox   orders/ann 1 2      sequence               the push of an application's own transaction
    seek     billing orders/ann end                     also beginning, offset=3, 12:00:30
    delete   orders/ann          redrive orders         forget billing orders
    retain   orders -> 3         tidy idle=3600 -> 1    messages deleted by age; idle partitions removed
    dead     orders -> ann: 3                           the dead letters, oldest first
    counts   billing orders/ann -> completed 2 dead 1 expired 0 pending 0
    +31s                                                it is noon when a story begins

The queue that a story names first need not be named again in pop. One pop's partitions come in any order. 1(2) is
message 1 delivered for the third time; stories that do not care leave the number out.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from queenmq.errors import Refused
from tests.queue_in_sql import Delivery, Queue

LINE = re.compile(r"(?P<said>\S.*?)(?:\s+(?:->\s*(?P<answer>.*)|(?P<refusal>x QN\d{3})))?")
ACKS = {"ack": "completed", "fail": "failed", "retry": "retry", "dlq": "dlq"}


class Unexpected(AssertionError):
    """A line of a story that did not come out as written."""


@dataclass
class Story:
    """A story being told on a queue."""

    queue: Queue
    home: str = ""  # the queue named first
    groups: dict[str, dict[str, str]] = field(default_factory=dict)  # by consumer: group and mode
    held: dict[tuple[str, str], Delivery] = field(default_factory=dict)  # by consumer and partition

    async def tell(self, line: str) -> str:
        """Do what a line says; returns the line as it should have been written."""
        if not line.strip() or line.startswith("#"):
            return line
        parts = LINE.fullmatch(line.strip())
        assert parts is not None
        said, expected = parts["said"], parts["refusal"] or parts["answer"]
        try:
            answer = await self.act(said)
        except Refused as refused:
            answer = f"x {refused.sqlstate}"
        if expected is None and not answer.startswith(("x ", "already", "refused")):
            if said.startswith("pop"):
                raise Unexpected("a pop needs a -> and what it gets")
            return line
        if expected is not None and "(" not in expected:
            answer = re.sub(r"\(\d+\)", "", answer)
        if sorted(answer.split(", ")) == sorted(" ".join((expected or "").split()).split(", ")):
            return line
        return f"{said} {answer}" if answer.startswith("x ") else f"{said} -> {answer}"

    async def act(self, said: str) -> str:
        if said.startswith("+"):
            self.queue.clock.advance(float(said.removeprefix("+").removesuffix("s")))
            return ""
        verb, *words = said.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        if verb in ACKS:
            return await self.acknowledge(ACKS[verb], *names)
        if verb == "transact":
            return await self.transact(" ".join(words))
        method = getattr(self, f"do_{verb}", None)
        if method is None:
            raise Unexpected(f"no story knows the word {verb}")
        return str(await method(*names, **options))

    # One method per word.

    async def do_config(self, queue: str, **options: str) -> str:
        self.home = self.home or queue
        named = {key: options.pop(key) for key in ("namespace", "task") if key in options}
        await self.queue.configure(queue, **named, **{key: value_of(text) for key, text in options.items()})
        return ""

    async def do_group(self, group: str, *consumers: str, mode: str | None = None) -> str:
        for consumer in consumers:
            self.groups[consumer] = {"group": group, **({"mode": mode} if mode else {})}
        return ""

    async def do_push(self, place: str, *values: str, ids: str = "") -> str:
        queue, partition = self.place(place)
        offsets = await self.queue.push(queue, partition, *map(value_of, values), ids=split(ids))
        return " ".join(map(str, offsets))

    async def do_outbox(self, place: str, *values: str, ids: str = "") -> str:
        await self.queue.push_in_transaction(*self.place(place), *map(value_of, values), ids=split(ids))
        return ""

    async def do_sequence(self) -> str:
        row = await self.queue.sequence()
        return f"moved {row['moved']} stored {row['stored']}"

    async def do_pop(self, consumer: str, *names: str, **options: str) -> str:
        flags = {"auto"} & set(names)
        places = [name for name in names if name not in flags]
        wanted: dict[str, Any] = {**self.groups.get(consumer, {"group": "workers"}), **options}
        for short, long, kind in (
            ("batch", "batch", int),
            ("partitions", "partitions", int),
            ("lease", "lease_seconds", float),
        ):
            if short in wanted:
                wanted[long] = kind(wanted.pop(short))
        if re.match(r"\d\d:", wanted.get("mode", "")):
            wanted |= {"mode": "timestamp", "since": self.time(wanted["mode"])}
        if not {"namespace", "task"} & set(options):
            wanted["queue"], _, wanted["partition"] = (places[0] if places else self.home).partition("/")
            wanted["partition"] = wanted["partition"] or None
        deliveries = await self.queue.pop(**wanted, auto_ack=bool(flags))
        many = any(delivery.queue != self.home for delivery in deliveries) or "queue" not in wanted
        for delivery in deliveries:
            self.held[consumer, delivery.partition] = delivery
            self.held[consumer, f"{delivery.queue}/{delivery.partition}"] = delivery
        return ", ".join(shown(delivery, many=many) for delivery in deliveries) or "nothing"

    async def acknowledge(self, status: str, consumer: str, partition: str, *values: str) -> str:
        delivery = self.held[consumer, partition]
        offsets = offsets_of(delivery, values)
        answer = await self.queue.ack(delivery, offsets, status, "it failed" if status != "completed" else None)
        dead = [str(delivery.messages[offset]) for offset in answer.dead]
        refused = [str(offset) for offset in offsets if answer.held and offset not in answer.accepted]
        told = {
            "already": answer.already,
            f"dead {' '.join(dead)}": dead,
            f"refused {' '.join(refused)}": refused,
        }
        return " ".join(text for text, true in told.items() if true)

    async def transact(self, said: str) -> str:
        acks, pushes = [], []
        for part in re.split(r"\s+and\s+", said):
            verb, *words = part.split()
            if verb == "push":
                pushes.append((*self.place(words[0]), [value_of(word) for word in words[1:]]))
            else:
                status, (consumer, partition, *values) = (
                    ACKS.get(verb),
                    words if verb in ACKS else [verb, *words],
                )
                delivery = self.held[consumer, partition]
                acks.append((delivery, offsets_of(delivery, values), status or "completed"))
        await self.queue.transact(acks, pushes)
        return ""

    async def do_status(self, consumer: str, partition: str, status: str) -> str:
        return await self.acknowledge(status, consumer, partition)

    async def do_renew(self, consumer: str, partition: str, seconds: str | None = None) -> str:
        expires_at = await self.queue.renew(self.held[consumer, partition], seconds and float(seconds))
        return f"{expires_at:%H:%M:%S}"

    async def do_release(self, consumer: str, partition: str) -> str:
        await self.queue.release(self.held[consumer, partition])
        return ""

    async def do_seek(self, group: str, place: str, to: str | None = None, *, offset: str | None = None) -> str:
        queue, _, partition = place.partition("/")
        moment = self.time(to) if to and ":" in to else None
        await self.queue.seek(
            group,
            queue,
            partition or None,
            offset=offset and int(offset),
            at=moment,
            to=None if moment else to,
        )
        return ""

    async def do_delete(self, place: str) -> str:
        queue, _, partition = place.partition("/")
        function = ("delete_partition", queue, partition) if partition else ("delete_queue", queue)
        [row] = await self.queue.call(*function)
        return "gone" if row[0] else "nothing"

    async def do_clear(self, queue: str) -> str:
        [row] = await self.queue.call("clear_queue", queue, self.queue.clock.now)
        return str(row[0])

    async def do_retain(self, queue: str) -> str:
        [found] = await self.queue.call("find_queue", queue)
        [row] = await self.queue.call("retain", found[0], p_now=self.queue.clock.now)
        return str(row["messages"])

    async def do_tidy(self, *, idle: str) -> str:
        [row] = await self.queue.call("remove_idle_partitions", float(idle), p_now=self.queue.clock.now)
        return str(row[0])

    async def do_forget(self, group: str, queue: str, *, subscription: str = "forgotten") -> str:
        await self.queue.call("delete_group", group, queue, subscription == "forgotten")
        return ""

    async def do_redrive(self, queue: str) -> str:
        [row] = await self.queue.call("redrive_dead_letters", p_queue=queue, p_now=self.queue.clock.now)
        return str(row[0])

    async def do_dead(self, queue: str) -> str:
        letters = reversed(await self.queue.dead_letters(queue))
        return ", ".join(f"{row['partition']}: {row['payload']}({row['retry_count']})" for row in letters) or "nothing"

    async def do_counts(self, group: str, place: str) -> str:
        queue, partition = self.place(place)
        row = await self.queue.connection.fetchrow(
            """
            select c.completed, c.dead_lettered, c.expired,
                   l.next_offset - c.committed - queen.multirange_size(c.acked) as pending
              from queen.queues q
              join queen.partitions p on p.queue_id = q.id and p.name = $2
              join queen.partition_lookup l on l.partition_id = p.id
              join queen.queue_groups g on g.queue_id = q.id and g.name = $3
              join queen.partition_consumers c on c.partition_id = p.id and c.group_id = g.id
             where q.name = $1
            """,
            queue, partition, group,
        )  # fmt: skip
        return "completed {} dead {} expired {} pending {}".format(*row)

    # Words to things.

    def place(self, text: str) -> tuple[str, str]:
        queue, _, partition = text.partition("/")
        self.home = self.home or queue
        return queue, partition or "Default"

    def time(self, text: str) -> datetime:
        hours, minutes, seconds = (int(part) for part in text.split(":"))
        return self.queue.clock.now.replace(hour=hours, minute=minutes, second=seconds, microsecond=0)


def shown(delivery: Delivery, *, many: bool) -> str:
    """A delivery as stories write it: ann: 1 2(1)."""
    messages = []
    for value, tries in zip(delivery.values, delivery.retry_counts, strict=True):
        messages.append(f"{value}({tries})" if tries else str(value))
    name = f"{delivery.queue}/{delivery.partition}" if many else delivery.partition
    return f"{name}: {' '.join(messages)}"


def offsets_of(delivery: Delivery, values: Iterable[str]) -> list[int]:
    """Offsets by value; @7 is offset 7 whatever the delivery holds."""
    by_value = {str(value): offset for offset, value in delivery.messages.items()}
    return [int(v[1:]) if v.startswith("@") else by_value[v] for v in values] or delivery.offsets


def value_of(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def split(ids: str) -> list[str | None]:
    return [name if name != "-" else None for name in ids.split(",")] if ids else []
