"""A consumer whose payloads are checked: what does not fit, and what is given up, is set aside with the reason.

$ python examples/typed_consumers.py
charge ann 40
charge bob 2
set aside: the payload is not a Payment: Expected `int`, got `str` - at `$.amount`
set aside: no such account
"""

import asyncio
import logging

import msgspec

from queenmq import GiveUp, Queen, Stop
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres

PAYMENTS = [
    {"account": "ann", "amount": 40},
    {"account": "ann", "amount": "forty"},
    {"account": "nobody", "amount": 1},
    {"account": "bob", "amount": 2},
]


class Payment(msgspec.Struct):
    """What a payload must look like."""

    account: str
    amount: int


def main(dsn: str) -> None:
    """Push a few payments, and have each group work on them."""
    stop = Stop()  # a program that runs for ever needs none: SIGTERM and SIGINT stop it
    with Queen(dsn) as queen:
        queen.admin.delete("payments")  # of an earlier run

        @queen.consumer("payments", group="charges", batch=10, concurrency=2)
        def charge(payment: Payment) -> None:
            if payment.account == "nobody":
                raise GiveUp("no such account")
            print("charge", payment.account, payment.amount, flush=True)
            if payment.account == "bob":
                stop.set()

        queen.queue("payments").push_many(PAYMENTS)
        queen.run(stop=stop)
        for letter in reversed(queen.dead_letters.list(queue="payments").dead_letters):
            print("set aside:", letter.error)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # what is set aside is a warning, and expected here
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
