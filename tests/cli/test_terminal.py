"""Commands at a real pseudo-terminal: what a person sees, and what keys do."""

import os
import re
import sys
import time

import httpx
import pexpect
import pyte
import pytest

from tests.waits import until_now

COLUMNS, LINES = 120, 24
SECONDS_MAX = 60
CHUNK_BYTES = 256  # little at a time, so that what is shown for a moment is seen
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
PROGRAM = "import sys; from queenmq.cli import main; sys.exit(main())"


class Terminal:
    """A command at a terminal of its own, and what is on the screen."""

    def __init__(self, *arguments):
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self.process = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, *arguments],
            dimensions=(LINES, COLUMNS),
            timeout=SECONDS_MAX,
            env=ENVIRONMENT,
        )

    @property
    def screen(self):
        return "\n".join(line.rstrip() for line in self._screen.display).strip()

    def until(self, wanted):
        """Read until a text is on the screen, or until something is true of it; gives the screen."""
        deadline = time.monotonic() + SECONDS_MAX
        while not (wanted(self.screen) if callable(wanted) else wanted in self.screen):
            assert time.monotonic() < deadline, self.screen
            self._stream.feed(self.process.read_nonblocking(CHUNK_BYTES, timeout=SECONDS_MAX))
        return self.screen

    def ends(self, status):
        """Read to the end, and see its exit status."""
        self._stream.feed(self.process.read())
        self.process.close()
        assert self.process.exitstatus == status, self.screen
        return self.screen


@pytest.fixture
def terminal(url):
    opened = []

    def start(*arguments, at=url):
        opened.append(Terminal(*arguments, *at))
        return opened[-1]

    yield start
    for each in opened:
        each.process.close(force=True)


def test_a_push_shows_how_far_it_is_and_ends_with_a_sentence(terminal, queue, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(f'{{"n": {n}, "padding": "{"x" * 200}"}}\n' for n in range(20_000)))
    pushing = terminal("push", queue, "--file", str(file), "--batch", "100")
    assert "%" in pushing.until("/s")
    assert pushing.ends(0).startswith(f"20,000 pushed to {queue} in ")


def test_at_a_terminal_without_messages_a_push_says_what_it_takes(terminal, queue):
    assert "pipe JSON lines" in terminal("push", queue).ends(2)


def test_a_destructive_command_asks_and_takes_no_for_an_answer(terminal, queue, queen):
    queen("push", queue, "1")
    asking = terminal("queue", "delete", queue)
    asking.until("[y/N]")
    asking.process.sendline("n")
    assert "Nothing was done." in asking.ends(1)
    assert [each["name"] for each in queen("queues", queue, "--json").json] == [queue]


def test_a_destructive_command_does_it_when_the_answer_is_yes(terminal, queue, queen):
    queen("push", queue, "1")
    asking = terminal("queue", "delete", queue)
    asking.until("[y/N]")
    asking.process.sendline("y")
    assert f"Deleted {queue}." in asking.ends(0)
    assert queen("queues", queue, "--json").json == []


def test_top_shows_what_happens_and_q_quits(terminal, queue, queen, database):
    at = ["--dsn", database]  # of this test alone: elsewhere, larger backlogs come first
    queen("push", queue, "1", "2", at=at)
    queen("pop", queue, "--group", "watched", "--keep", at=at)
    top = terminal("top", "--interval", "0.2", at=at)
    [line] = [line for line in top.until("watched").splitlines() if queue in line.split()]
    assert line.split()[:2] == [queue, "watched"]
    assert "completed/s" in top.screen
    queen("push", queue, *map(str, range(50)), at=at)
    top.until(
        lambda shown: [queue, "51"] in [[*line.split(), *5 * [""]][:5:4] for line in shown.splitlines()]
    )  # pending
    top.process.send("xq")
    top.ends(0)


def test_top_shows_as_many_groups_as_there_is_room_for(terminal, queue, queen):
    queen("push", queue, "1")
    for number in range(LINES):
        queen("pop", queue, "--group", f"a-group-with-a-rather-long-name-{'x' * 100}-{number}", "--keep")
    shown = terminal("top").until(lambda shown: shown.count("\n") == LINES - 1 and shown.endswith((" s", " min")))
    assert "q quits" in shown
    ages = [line.split()[-1] for line in shown.splitlines()[5:]]  # the last column, which names have left room for
    assert set(ages) <= {"s", "min"}


def test_ctrl_c_ends_top_with_a_status_of_its_own(terminal, queen):
    top = terminal("top")
    top.until("q quits")
    top.process.sendintr()
    top.ends(130)


def test_a_table_at_a_terminal_is_no_wider_than_it(terminal, queue, queen):
    queen("push", queue, "1", "--partition", "p" * 100)
    queen("pop", queue, "--keep")
    head, *lines = terminal("why", queue).ends(0).splitlines()
    assert head.split() == ["partition", "cause", "until", "messages", "why"]
    assert "".join(line.split()[0] for line in lines if line.startswith("p")) == "p" * 100


def test_a_pop_waits_for_a_message_as_long_as_it_is_told(terminal, queue, queen, shop):
    waiting = terminal("pop", queue, "--wait", "60")
    until_now("the pop is parked", lambda: httpx.get(f"{shop[0].url}/metrics").json()["polls"]["parked"])
    assert waiting.process.isalive()
    queen("push", queue, '"at last"')
    assert waiting.ends(0).endswith('Default 0  "at last"')


def looks(shop):
    """How often somebody has asked the server for what is stored."""
    routes = ("/api/v1/messages", "/api/v1/partitions/changed", "/api/v1/fetch")
    lines = httpx.get(f"{shop[0].url}/metrics/prometheus").text.splitlines()
    counts = [line for line in lines if line.startswith("queen_request_seconds_count")]
    return sum(float(line.split()[-1]) for line in counts if any(f'route="{route}"' in line for route in routes))


def test_tail_goes_on_with_what_follows_until_ctrl_c(terminal, queue, queen, shop):
    before = looks(shop)
    following = terminal("tail", queue, "--follow", "--json")  # of a queue that is not there yet
    # Where it begins, what is newest, what follows.
    until_now("tail has asked three times", lambda: looks(shop) >= before + 3)
    assert following.process.isalive(), following.ends(130)
    queen("push", queue, '"first"')
    following.until('"first"')
    queen("push", queue, '"second"', "--partition", "ann")
    following.until('"second"')
    following.process.sendintr()
    assert following.ends(130).count('"payload"') == 2


def test_tail_shows_a_message_once_whether_it_was_there_or_follows(terminal, queue, queen):
    queen("push", queue, '"old"', '"older"')
    following = terminal("tail", queue, "-f", "-n", "1")
    following.until("older")
    queen("push", queue, '"new"')
    shown = following.until('"new"')
    assert [line.split()[-1] for line in shown.splitlines()] == ['"older"', '"new"']


def test_a_push_that_is_interrupted_tells_how_far_it_came(terminal, queen, queue, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("1\n" * 200_000)
    pushing = terminal("push", queue, "--file", str(file), "--batch", "10")
    pushing.until(lambda shown: re.search(r"\b[1-9][\d,]* pushed", shown))
    pushing.process.sendintr()
    [told] = re.findall(r"^Interrupted\. Stored: ([\d,]+) messages, no others\.$", pushing.ends(130), re.MULTILINE)
    assert told == f"{queen('queue', 'show', queue, '--json').json['queue']['messages']['stored']:,}"
