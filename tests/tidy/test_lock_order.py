"""Every statement that locks rows of a shared table says in which order, or why it needs none.

The rule is in ARCHITECTURE.md, "Locks". A `select … for update` has an `order by`, locks one row, or skips rows that
are locked. An `update` or `delete` locks rows in whatever order the plan finds them, so the rows were locked before: by
an ordered statement of the same function, or by its caller, which is an exception with its reason.

A push wakes groups whose rows have read all, and locks these in no order: nobody else may have one of them, because
a push has their lookup rows. So each function that locks consumer rows has locked their lookup rows before. If it did
not, a lease that ends while it waits would leave it such a row.
"""

import re

from queenmq.sql import Contents

FUNCTIONS = {
    file.name.removeprefix("functions/").removesuffix(".sql"): file.text
    for file in Contents.read().code
    if file.is_function
}
ORDERED = {
    "queues": "name",
    "queue_groups": "id",
    "partition_lookup": "partition_id",
    "depth_bounds": "queue_id",
    "partition_consumers": "partition_id, group_id",
    "dead_letters": "id",
    "consumer_groups_metadata": "id",
    "staged_segments": "stage_id, n",
    "inbox_set_aside": "id",
}
COMMENT = re.compile(r"--.*")
TABLE = "|".join(ORDERED)
CHANGE = re.compile(rf"\b(?:update|delete from) queen\.({TABLE})\b")
LOCK = re.compile(r"\bfor (?:no key update|update|key share|share)\b(?: of (\w+))?( skip locked)?")

CALLER = "the caller has locked these rows"
CLAIMED = "the pop has claimed these rows with skip locked"
ONE = "one row, by its key"
EXCEPTIONS = {  # (function, table): why its updates and deletes need no order of their own
    ("append_staged", "partition_lookup"): CALLER,
    ("delete_queue", "queues"): ONE,
    ("give_up", "partition_consumers"): CLAIMED,
    ("hand_out", "partition_consumers"): CLAIMED,
    ("judge_failures", "partition_consumers"): CALLER,
    ("pass_over", "partition_consumers"): CALLER,
    ("remove_partitions", "partition_lookup"): CALLER,
    ("settle", "partition_consumers"): CLAIMED,
    ("skip_deleted", "partition_consumers"): CALLER,
    (
        "wake_groups",
        "partition_consumers",
    ): "nobody else has one of these rows without its lookup row, which the caller has",
}
UNDER_THE_CALLERS = {"remove_partitions"}  # functions whose caller has locked the lookup rows


def statements(text):
    """A function's statements, without comments, in lower case and on one line each."""
    body = COMMENT.sub("", text[text.index("create function") :]).lower()
    return [" ".join(statement.split()) for statement in body.split(";")]


def locking_select(statement, end):
    """The select that a lock clause belongs to: from its own `select` or `perform`, parentheses inside it left out."""
    depth, inner = 0, []
    words = list(re.finditer(r"\(|\)|[^\s()]+", statement[:end]))
    for word in reversed(words):
        if word[0] == ")":
            depth += 1
        elif word[0] == "(":
            depth -= 1
            if depth < 0:
                break
        if depth == 0 and word[0] not in "()":
            inner.append(word[0])
            if word[0] in ("select", "perform"):
                break
    return " ".join(reversed(inner))


def locked_table(select, alias):
    """The table that a select locks: the one with the alias after `of`, or the only one."""
    found = re.findall(rf"queen\.({TABLE})(?: (?:as )?(\w+))?", select)
    tables = [table for table, name in found if alias is None or name == alias]
    return tables[0] if tables else None


def has_order(select, table):
    """Whether a select sorts what it locks by the table's order, or locks one row."""
    columns = ORDERED[table].split(", ")
    order = select.rpartition(" order by ")[2] if " order by " in select else ""
    if order.endswith("limit 1") or " limit 1 " in f"{order} ":
        return True
    named = [column.split(".")[-1] for column in re.findall(r"[\w.]+", order)]
    fixed = [column for column in columns if re.search(rf"\b{column} = (?!any)", select)]
    return named[: len(columns)] == columns or named[:1] == [column for column in columns if column not in fixed]


def by_key(select, table):
    """Whether a select names one row by its key."""
    key = {"queues": "(?:id|name)", "queue_groups": "id"}.get(table, ORDERED[table].split(", ")[0])
    return re.search(rf"(?:\w\.)?{key} = (?!any)", select) is not None


def test_every_lock_has_an_order():
    wrong = []
    for name, text in FUNCTIONS.items():
        for statement in statements(text):
            for lock in LOCK.finditer(statement):
                select = locking_select(statement, lock.start())
                table = locked_table(select, lock[1])
                if table is None or lock[2] or has_order(select, table) or by_key(select, table):
                    continue
                wrong.append(f"{name}: {select} {lock[0]}")
    assert wrong == []


def test_consumer_rows_are_locked_under_their_lookup_rows():
    wrong = set()
    for name, text in FUNCTIONS.items():
        under = False
        for statement in statements(text):
            for lock in LOCK.finditer(statement):
                table = locked_table(locking_select(statement, lock.start()), lock[1])
                under = under or table == "partition_lookup"
                if table == "partition_consumers" and not lock[2] and not under:
                    wrong.add(name)
    assert wrong == UNDER_THE_CALLERS


def test_every_change_follows_an_ordered_lock():
    needed = set()
    for name, text in FUNCTIONS.items():
        locked = set()
        for statement in statements(text):
            locks = LOCK.finditer(statement)
            locked |= {locked_table(locking_select(statement, lock.start()), lock[1]) for lock in locks}
            needed |= {(name, change[1]) for change in CHANGE.finditer(statement) if change[1] not in locked}
    assert needed == EXCEPTIONS.keys()
