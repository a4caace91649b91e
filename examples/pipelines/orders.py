"""A shop: orders travel through five queues, and not every one arrives.

intake, payment, stock, shipping and mail; one partition for each customer, one trace for each order. Payments time out
and are tried again, some cards are refused, some articles are unknown to the stock: these orders end as dead letters.
The same seed makes the same orders, and the same things go wrong with them.
"""

from datetime import UTC, datetime
from random import Random
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from queenmq import Message, Outgoing, Queen

QUEUES = ("intake", "payment", "stock", "shipping", "mail")
ARTICLES = {"tea": 4.5, "cake": 12.0, "jam": 3.2, "honey": 6.8, "coffee": 9.9}
GROUP = "shop"
WAVES = 20  # in which customers come


def open_shop(queen: Queen) -> None:
    """Five queues that try twice more before they give up, without long pauses."""
    for name in QUEUES:
        queen.admin.configure(name, namespace="shop", retry_limit=2, retry_delay_ms=0)


def trade(queen: Queen, orders: int, seconds: float, seed: int = 1) -> None:
    """Let customers order for some seconds, and work until nothing is left to do."""
    random = Random(seed)
    opened = monotonic()
    for wave in range(WAVES):
        sleep(max(0.0, opened + wave * seconds / WAVES - monotonic()))
        numbers = range(wave * orders // WAVES, (wave + 1) * orders // WAVES)
        if numbers:
            queen.queue("intake").push_many([order(random, number) for number in numbers])
        for name in QUEUES:
            work(queen, name, seed)
    while any(work(queen, name, seed) for name in QUEUES):
        pass


def order(random: Random, number: int) -> Outgoing:
    """One order of a customer; a few customers order most."""
    customer = f"customer-{int(random.paretovariate(1.2)) % 50:02}"
    lines = [{"article": article, "pieces": random.randint(1, 3)} for article in random.sample(list(ARTICLES), 2)]
    total = round(sum(ARTICLES[line["article"]] * line["pieces"] for line in lines), 2)
    payload: dict[str, Any] = {
        "order": number,
        "customer": customer,
        "at": datetime.now(UTC),
        "lines": lines,
        "total": total,
    }
    if number % 10 == 0:
        payload["voucher"] = f"V{number}"
    if number % 25 == 7:
        payload["lines"].append({"article": "unicorn", "pieces": 1})
    trace = UUID(int=random.getrandbits(128), version=4)
    return Outgoing(payload, partition=customer, transaction_id=f"order-{number}", trace_id=trace)


def work(queen: Queen, name: str, seed: int) -> int:
    """Take what is there, and hand each order on to the next queue, together with its ack."""
    taken = queen.queue(name).group(GROUP).subscription_mode("all").batch(200).max_partitions(50).pop()
    following = QUEUES[QUEUES.index(name) + 1 :][:1]
    with queen.transaction() as transaction:
        for message in taken:
            status, error = fate(message, seed)
            transaction.ack(message, status, error)
            if status == "completed":
                for queue in following:
                    transaction.push(queue, message.payload, partition=message.partition, trace_id=message.trace_id)
    return len(taken)


def fate(message: Message, seed: int) -> tuple[Any, str | None]:
    """What becomes of an order here: it depends on the order and on how often it was tried."""
    order = message.payload
    luck = Random(f"{seed} {message.queue} {order['order']} {message.retry_count}").random()
    if message.queue == "payment" and luck < 0.10:
        return "failed", f"timeout after {20 + order['order'] % 20} s: the bank did not answer"
    if message.queue == "payment" and luck > 0.98:
        return "dlq", f"card of {order['customer']} refused: insufficient funds"
    if message.queue == "stock" and any(line["article"] not in ARTICLES for line in order["lines"]):
        return "dlq", "KeyError: 'unicorn'"
    if message.queue == "mail" and luck < 0.02:
        return "failed", "HTTP 503 from the mail server"
    return "completed", None
