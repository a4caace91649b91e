"""SIGTERM and SIGINT: a consumer finishes what it has begun, gives back the rest, and its program goes on."""

import signal
import subprocess
import sys

import pytest

from queenmq import Queen

BLOCKING = """
import signal, sys
from queenmq import Queen

before = signal.getsignal(signal.{signal})
with Queen(sys.argv[1]) as queen:
    @queen.consumer(sys.argv[2], batch=10)
    def handler(message):
        print("begun", message.payload, flush=True)
        while signal.getsignal(signal.{signal}) is not before:  # a second one would do what it always did
            queen.ping()
        print("finished", message.payload, flush=True)

    queen.run()
print("stopped", flush=True)
"""

ASYNCIO = """
import asyncio, signal, sys
from queenmq import AsyncQueen

async def main():
    before = signal.getsignal(signal.{signal})
    async with AsyncQueen(sys.argv[1]) as queen:
        async def handler(message):
            print("begun", message.payload, flush=True)
            while signal.getsignal(signal.{signal}) is not before:
                await queen.ping()
            print("finished", message.payload, flush=True)

        await queen.queue(sys.argv[2]).batch(10).consume(handler)
    print("stopped", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("program", [BLOCKING, ASYNCIO], ids=["blocking", "asyncio"])
def test_a_signal_ends_it_in_peace(module_database, queue, program, name):
    with Queen(module_database) as queen:
        queen.queue(queue).push_many([1, 2, 3])
        command = [sys.executable, "-W", "error", "-c", program.format(signal=name), module_database, queue]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
            assert consumer.stdout.readline() == "begun 1\n"
            consumer.send_signal(getattr(signal, name))
            assert consumer.stdout.read() == "finished 1\nstopped\n"
        assert consumer.returncode == 0
        messages = queen.queue(queue).batch(10).pop()
        assert [(message.payload, message.retry_count) for message in messages] == [(2, 0), (3, 0)]
