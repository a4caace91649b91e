"""queen tail."""


def payloads(outcome):
    return [message["payload"] for message in outcome.json_lines]


def test_the_newest_messages_come_in_their_order(either, queue):
    either("push", queue, *map(str, range(15)))
    assert payloads(either("tail", queue, "--json")) == list(range(5, 15))
    assert payloads(either("tail", queue, "-n", "2", "--json")) == [13, 14]
    assert either("tail", queue, "-n", "0").out == ""
    assert either("tail", queue, "-n", "1").out.endswith("  Default 14  14\n")


def test_only_one_partition_is_read_where_one_is_named(queen, queue):
    queen("push", queue, "1", "--partition", "ann")
    queen("push", queue, "2", "--partition", "bob")
    assert payloads(queen("tail", queue, "--partition", "ann", "--json")) == [1]


def test_reading_leaves_no_trace(queen, queue):
    queen("push", queue, "1")
    queen("tail", queue)
    assert [each["name"] for each in queen("groups", queue, "--json").json] == [None]  # no group has read it
    assert payloads(queen("pop", queue, "--json")) == [1]
