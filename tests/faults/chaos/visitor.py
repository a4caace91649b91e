"""A worker of the chaos test that is a client of servers: what it does it does over HTTP."""

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx

from queenmq.engine.pop.popper import Popped, Run
from queenmq.engine.segments import Segment
from queenmq.errors import LeaseGone, Unavailable
from queenmq.model import OFFSET_DIGITS, Ack, Acked, Lease, Message, Outgoing, PopRequest, Pushed
from queenmq.service.ids import id_text, partition_number
from tests.faults.chaos.diary import Diary
from tests.faults.chaos.worker import Worker

AWAY = (429, 503)
REFUSED = {None, "Invalid or expired lease"}
UNKNOWN = datetime.fromtimestamp(0, UTC)  # clients are not told; the database has noted it


class Place:
    """Where a server is, whether it is there now or not."""

    def __init__(self, url: str) -> None:
        self.there = asyncio.Event()
        self.there.set()
        self.http = httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=60)


class Remote:
    """Servers in the role of an engine. Pushes go to one of them, since order is kept by each; the rest to any."""

    def __init__(self, home: Place, places: Sequence[Place], dice: random.Random) -> None:
        self._home = home
        self._places = places
        self._dice = dice
        self._names: dict[tuple[int, int], str] = {}  # partition and offset -> transaction id
        self._groups: dict[UUID, str] = {}

    async def push(self, messages: Sequence[Outgoing]) -> list[Pushed]:
        """Nothing is known of messages in a spool but that they will be stored."""
        answers = (await self._call(self._home, "POST", "/push", {"items": [_item(each) for each in messages]})).json()
        statuses = {each["status"] for each in answers}
        if statuses == {"buffered"}:
            return []
        assert statuses <= {"queued", "duplicate"}, answers
        return [
            Pushed(
                partition_number(each["partition_id"]),
                int(each["message_id"][-OFFSET_DIGITS:], 16),
                UNKNOWN,
                duplicate=each["status"] == "duplicate",
            )
            for each in answers
        ]

    async def pop(self, request: PopRequest, wait_seconds: float) -> Popped:
        path = f"/pop/queue/{request.queue}" + (f"/partition/{request.partition}" if request.partition else "")
        query = {
            "consumerGroup": request.group,
            "batch": request.batch,
            "partitions": request.partitions_max,
            "leaseTime": round(request.lease_seconds or 0),
            "wait": wait_seconds > 0,
            "timeout": round(wait_seconds * 1000),
        }
        answer = await self._call(self._any(), "GET", path, query=query)
        if answer.status_code == 204:
            return Popped((), ())
        leases: dict[str, Lease] = {}
        runs = []
        for each in answer.json()["messages"]:
            id, partition_id = UUID(each["leaseId"]), partition_number(each["partitionId"])
            lease = Lease(id, request.group, 0, each["queue"], each["partition"], partition_id, UNKNOWN)
            array = json.dumps([each["data"]]).encode()
            segment = Segment(partition_id, each["offset"], 1, UNKNOWN, array, None, None, None, None)
            runs.append(Run(leases.setdefault(each["partition"], lease), segment, range(1), [each["offset"]], [0]))
            self._names[partition_id, each["offset"]] = each["transactionId"]
            self._groups[id] = request.group
        return Popped(tuple(leases.values()), runs)

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        body = {"acknowledgments": [self._ack(each) for each in acks]}
        answers = (await self._call(self._any(), "POST", "/ack/batch", body)).json()
        assert {each["error"] for each in answers} <= REFUSED, answers
        return [Acked(each["success"]) for each in answers]

    async def renew(self, lease: UUID, seconds: float) -> datetime:
        [answer] = (await self._call(self._any(), "POST", f"/lease/{lease}/extend", {"seconds": seconds})).json()
        if not answer["success"]:
            raise LeaseGone(answer["error"])
        return datetime.fromisoformat(answer["expiresAt"])

    async def transaction(self, acks: Sequence[Ack], messages: Sequence[Outgoing]) -> None:
        operations = [{"type": "ack"} | self._ack(each) for each in acks]
        operations.append({"type": "push", "items": [_item(each) for each in messages]})
        answer = (await self._call(self._any(), "POST", "/transaction", {"operations": operations})).json()
        if not answer["success"]:
            raise LeaseGone(answer["error"])

    async def _call(
        self, place: Place, method: str, path: str, body: object = None, query: dict[str, Any] | None = None
    ) -> httpx.Response:
        await place.there.wait()
        try:
            answer = await place.http.request(method, path, json=body, params=query)
        except httpx.TransportError as error:
            raise Unavailable(f"{method} {path}: {error!r}") from error
        if answer.status_code in AWAY:
            raise Unavailable(answer.text)
        assert answer.is_success, answer.text
        return answer

    def _any(self) -> Place:
        return self._dice.choice(self._places)

    def _ack(self, ack: Ack) -> dict[str, Any]:
        return {
            "transactionId": self._names[ack.partition_id, ack.offset],
            "partitionId": id_text(ack.partition_id),
            "leaseId": str(ack.lease_id),
            "consumerGroup": self._groups[ack.lease_id],
            "status": ack.status,
        }


def _item(message: Outgoing) -> dict[str, Any]:
    item = {"queue": message.queue, "partition": message.partition, "payload": json.loads(message.payload)}
    return item if message.transaction_id is None else item | {"transactionId": message.transaction_id}


class Visitor(Worker):
    """Does what a worker does, as far as there is a route for it, until it is told to stop."""

    def __init__(self, name: str, remote: Remote, diary: Diary, dice: random.Random) -> None:
        super().__init__(name, remote, None, diary, dice)
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await self.act()

    async def say(self, messages: list[list[Any]]) -> None:
        """Push; with ids it may be repeated until there is an answer."""
        while True:
            try:
                return await super().say(messages)
            except Unavailable:
                if any(id is None for *_, id in messages):
                    raise

    async def push_in_transaction(self) -> None:
        """There is no outbox here."""
        await self.push()

    async def release(self, group: str, messages: list[Message]) -> None:
        """There is no route for it."""
        await self.forget(group, messages)
