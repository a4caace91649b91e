"""The blocking skin is what the generator writes."""

import pytest

from tools import sync_client

FILES = sorted(path.stem for path in sync_client.SYNC.glob("*.py") if path.stem != "__init__")


def test_the_files_are_those_of_the_skin():
    assert sorted(sync_client.SKIN) == FILES


@pytest.mark.parametrize("name", sync_client.SKIN)
def test_a_file_is_what_the_generator_writes(name):
    assert (sync_client.SYNC / f"{name}.py").read_text() == sync_client.generate(name), "run: make sync-client"


def test_a_statement_that_is_asyncio_only_has_no_twin():
    source = (
        "A = 1\n"
        "B = (  # asyncio only\n"
        "    2)\n"
        "class Queen:\n"
        "    @overload  # asyncio only\n"
        "    async def f(self) -> None: ...\n"
        "    @overload\n"
        "    async def f(self) -> int: ...\n"
    )
    kept = "A = 1\nclass Queen:\n    @overload\n    async def f(self) -> int: ...\n"
    assert sync_client.without_asyncio_only(source) == kept


def test_tokens_are_rewritten_and_the_rest_stays():
    source = (
        'async def f(queen: "AsyncQueen") -> None:\n'
        '    """Use an AsyncQueen: await queen.f()."""\n'
        "    async with queen:  # awaiting it\n"
        "        return [await each async for each in awaitable]\n"
    )
    assert sync_client.rewritten(source) == (
        'def f(queen: "Queen") -> None:\n'
        '    """Use an Queen: queen.f()."""\n'
        "    with queen:  # awaiting it\n"
        "        return [each for each in awaitable]\n"
    )
