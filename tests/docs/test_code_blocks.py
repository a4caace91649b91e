"""Every code block of the documentation runs, and does what it says."""

import re

import pytest

from tests.docs.page import PAGES, ROOT, RUN, blocks
from tests.docs.reader import reader

# Every block that is for reading only, as "page: reason". Keep it short.
NOT_RUN = [
    "docs/deployment.md: no Docker daemon",
    "docs/deployment.md: it changes the machine",
    "docs/deployment.md: no cluster",
    "docs/operations.md: the roles exist; tests/rights/test_roles.py runs it",
    "docs/poolers.md: addresses",
    "docs/poolers.md: the role is an example",
]

APART = ["docs/high-availability.md"]  # pages that need more than a database, and have a test of their own

ALL = {str(path.relative_to(ROOT)): path.read_text() for path in [*PAGES, ROOT / "CONTRIBUTING.md"]}
BLOCKS = {name: blocks(text, name) for name, text in ALL.items()}
RUNNABLE = {
    name: [block for block in found if block.language in RUN and block.not_run is None]
    for name, found in BLOCKS.items()
}


@pytest.mark.parametrize("name", [name for name, found in RUNNABLE.items() if found and name not in APART])
async def test_the_blocks_of_a_page_run(name, database):
    async with reader(database) as page:
        for block in RUNNABLE[name]:
            await page.read(block)


def test_the_blocks_that_do_not_run_are_listed_here():
    found = [f"{name}: {block.not_run}" for name in ALL for block in BLOCKS[name] if block.not_run is not None]
    assert found == NOT_RUN


def test_every_make_target_that_is_mentioned_exists():
    mention = re.compile(r"(?:`|^\$? ?)make ([a-z-]+)", re.MULTILINE)
    mentioned = {target for text in ALL.values() for target in mention.findall(text)}
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"run", "test"} <= mentioned <= targets


LIES = [
    "```python\n1 + 1\n# -> 3\n```",
    "```python\nprint('a')  # -> b\n```",
    "```python\nimport asyncio\n\nasync def main(): print(1)\n\nasyncio.run(main())  # -> 2\n```",
    "```sql\nselect 1, true;\n-- -> 1 | f\n```",
    "```sql\nselect 1;\n-- x QN404\n```",
    "```console\n$ echo yes\nno\n```",
]


@pytest.mark.parametrize("lie", LIES)
async def test_a_page_that_lies_is_found_out(lie, database):
    [block] = blocks(f"{lie}\n", "a page")
    async with reader(database) as page:
        with pytest.raises(AssertionError):
            await page.read(block)


TRUTH = """
```python
popped = await engine.admin.ledger()
len(popped)
# -> 0
for each in "ab":
    print(each, 7)
    # -> a 7
    # -> b …
```
```sql
begin; select queen.push('orders', '{"note": "a; b"}'); commit;
select queue, payload from queen.messages;   -- a remark
-- -> orders | {"note": "a; b"}
select * from queen.find_queue('nowhere');
-- x QN404
do $$ begin perform 1; end $$;
```
```console
$ echo "$QUEEN_DSN" | cut -c 1-13
postgresql://
```
"""


async def test_a_page_that_tells_the_truth_is_believed(database):
    async with reader(database) as page:
        for block in blocks(TRUTH, "a page"):
            await page.read(block)
