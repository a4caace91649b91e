"""A small shop's traffic on a running server: what screenshots and the tests of the dashboard look at.

All of it goes through the HTTP API. Only the hour of statistics is made faster than it would pass: the function that
upkeep calls every minute takes the time as an argument, and is called here with the minutes of the last hour.
"""

import math
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import psycopg

MINUTES = 60
CUSTOMERS = ("ann", "bob", "cem", "dora", "eli", "fay", "gus", "hana")
ITEMS = ("tea", "cake", "coffee", "scones", "jam")
TRACE = "0190a3e4-0000-4000-8000-000000000042"
BOUNCES = (
    "SMTP 550: mailbox “{name}@example.org” is full",
    "SMTP 550: mailbox “{name}@example.org” is full",
    "Timeout after 30.{n} s while connecting to mail.example.org",
    'ValueError: template "welcome-{n}" has no field "first_name"',
)
QUEUES: dict[str, dict[str, Any]] = {
    "orders": {"namespace": "shop", "task": "checkout"},
    "payments": {"namespace": "shop", "task": "billing", "options": {"maxSize": 400}},
    "parcels": {"namespace": "shop", "task": "shipping", "options": {"leaseTime": 900}},
    "emails": {"namespace": "mail", "options": {"retryLimit": 0}},
    "clicks": {"namespace": "web", "options": {"completedRetentionSeconds": 86_400}},
    "reminders": {"namespace": "mail", "options": {"delayedProcessing": 3_600}},
}


class Shop:
    """Pushes, pops and acknowledges as a shop would."""

    def __init__(self, url: str, dsn: str, token: str | None = None) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._api = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60)
        self._dsn = dsn

    def open(self, minutes: int = MINUTES) -> None:
        """The business of so many minutes, up to now."""
        for name, settings in QUEUES.items():
            self._post("/configure", {"queue": name, **settings})
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            now = datetime.now(UTC)
            for minute in range(minutes + 1):
                self._minute(minute)
                connection.execute("select queen.collect_stats(%s)", [now - timedelta(minutes=minutes - minute)])
        self._leave_work()
        self._follow_one_order()
        self._api.close()

    def _minute(self, minute: int) -> None:
        busy = 6 + round(5 * math.sin(minute / 9) + (minute % 7) / 2)
        for queue in ("orders", "payments", "clicks"):
            items = [self._order(queue, minute * 20 + n) for n in range(busy * (3 if queue == "clicks" else 1))]
            self.push(queue, items)
        self.take("orders", "billing", busy)
        self.take("orders", "shipping", busy - 1)
        self.take("payments", "ledger", busy - (minute > 45) * (busy // 2))
        self.take("clicks", "analytics", 3 * busy - 1)
        if minute % 6 == 0:
            name = CUSTOMERS[minute % len(CUSTOMERS)]
            letter = {"to": f"{name}@example.org", "template": "welcome", "order": 4_000 + minute, "attachments": []}
            self.push("emails", [(name, letter)])
            error = BOUNCES[(minute // 6) % len(BOUNCES)].format(name=name, n=minute)
            self.take("emails", "mailer", 1, status="failed", error=error)

    def _leave_work(self) -> None:
        """A backlog that nobody reads, messages that consumers hold, one that is tried again, one for later."""
        self.push("parcels", [(name, {"parcel": n, "weight_kg": 1.5}) for n, name in enumerate(CUSTOMERS)])
        self.push("reminders", [("ann", {"remind": "renew"}), ("bob", {"remind": "pay"})])
        self.pop("reminders", "mailer", 1)
        self.push("orders", [self._order("orders", 9_000 + n) for n in range(40)])
        self.take("orders", "billing", 5)
        for _ in range(2):
            self.pop("orders", "billing", 3)
        held = self.pop("orders", "shipping", 1)
        self.ack(held[:1], "shipping", "failed", "the label printer is out of paper")

    def _follow_one_order(self) -> None:
        for queue, payload in (
            ("orders", {"order": 4_711, "item": "tea", "total": 12.5}),
            ("payments", {"order": 4_711, "card": "…4242", "amount": 12.5}),
            ("parcels", {"order": 4_711, "address": "1 Long Lane"}),
            ("emails", {"order": 4_711, "template": "shipped"}),
        ):
            item = {
                "queue": queue,
                "partition": "ann",
                "payload": payload,
                "traceId": TRACE,
                "transactionId": f"4711-{queue}",
            }
            self._post("/push", {"items": [item]})

    def push(self, queue: str, items: Sequence[tuple[str, Any]]) -> None:
        """Push payloads to their partitions."""
        sent = [{"queue": queue, "partition": partition, "payload": payload} for partition, payload in items]
        self._post("/push", {"items": sent})

    def take(self, queue: str, group: str, count: int, status: str = "completed", error: str | None = None) -> None:
        """Pop up to so many messages, and answer all of them."""
        while count > 0 and (messages := self.pop(queue, group, count)):
            count -= len(messages)
            self.ack(messages, group, status, error)

    def pop(self, queue: str, group: str, count: int) -> list[dict[str, Any]]:
        """Pop, and keep the lease."""
        query: dict[str, str | int] = {"consumerGroup": group, "batch": count, "partitions": 4, "empty": 200}
        answer = self._api.get(f"/pop/queue/{quote(queue, safe='')}", params=query)
        answer.raise_for_status()
        messages: list[dict[str, Any]] = answer.json()["messages"]
        return messages

    def ack(self, messages: Sequence[dict[str, Any]], group: str, status: str, error: str | None = None) -> None:
        """Answer messages of one pop."""
        names = ("transactionId", "partitionId", "leaseId")
        acks = [{name: each[name] for name in names} | {"status": status, "error": error} for each in messages]
        self._post("/ack/batch", {"acknowledgments": acks, "consumerGroup": group})

    def _order(self, queue: str, number: int) -> tuple[str, dict[str, Any]]:
        customer = CUSTOMERS[number % len(CUSTOMERS)]
        partition = f"visitor-{number % 120:03}" if queue == "clicks" else customer
        id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{queue}{number}"))
        return partition, {"id": id, "customer": customer, "item": ITEMS[number % len(ITEMS)], "number": number}

    def _post(self, path: str, body: dict[str, Any]) -> None:
        self._api.post(path, json=body).raise_for_status()
