"""Every story in this directory, told on a real PostgreSQL; story.py explains the language."""

import difflib
from pathlib import Path

import pytest

from tests.books import assert_the_books_balance
from tests.queue_in_sql import Clock, Queue
from tests.stories.story import Story

STORIES = sorted(Path(__file__).parent.glob("*.txt"))

pytestmark = pytest.mark.every_postgres


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
async def test_the_story_is_true(path, connection):
    story = Story(Queue(connection, Clock()))
    written = path.read_text().splitlines()
    for number, line in enumerate(written, 1):
        try:
            told = await story.tell(line)
        except Exception as error:
            error.add_note(f"{path.name}:{number}: {line}")
            raise
        if told != line:
            pytest.fail(f"{path.name}:{number}\n{difference(written[:number], told)}", pytrace=False)
    await assert_the_books_balance(connection, story.queue.clock.now)


def difference(written: list[str], told: str) -> str:
    """The story so far, and its last line as written (-) and as it turned out (+)."""
    return "\n".join(difflib.ndiff(written, [*written[:-1], told]))
