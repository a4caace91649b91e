"""queen top and queen bench, for programs."""

from queenmq.cli.top import Line, _pushed_rate


def test_top_prints_a_line_of_json_per_look(either, queue):
    either("push", queue, "1", "2", "3")
    either("pop", queue, "--group", "g")
    looks = either("top", "--json", "--interval", "0.1", "--count", "2").json_lines
    assert len(looks) == 2
    for look in looks:
        [line] = [line for line in look["lines"] if line["queue"] == queue]
        assert (line["group"], line["pending"], line["pushed_rate"], line["dead_lettered"]) == ("g", 2, 0.0, 0)
    assert looks[0]["overview"]["queues"] >= 1


def test_top_shows_a_queue_that_no_group_reads(either, queue):
    either("push", queue, "1", "2", "3")
    [look] = either("top", "--json", "--count", "1").json_lines
    [line] = [line for line in look["lines"] if line["queue"] == queue]
    assert (line["group"], line["pending"], line["leases"]) == (None, 3, 0)
    assert line["lag_seconds"] > 0
    [line] = [line.split() for line in either("top", "--count", "1").lines if line.startswith(f"{queue} ")]
    assert line[:5] == [queue, "(nobody)", "0.0", "0.0", "3"]


def test_the_rate_of_pushes_counts_a_queue_once_however_many_groups_read_it():
    def line(queue, group, rate):
        return Line(
            queue=queue, group=group, pushed_rate=rate, completed_rate=0.0, pending=0, leased=0, leases=0,
            dead_lettered=0, lag_seconds=0.0,
        )  # fmt: skip

    assert _pushed_rate([line("a", "g", 5.0), line("a", "h", 5.0), line("a", None, 2.0), line("b", None, 1.0)]) == 8.0


def test_top_prints_tables_into_a_pipe(queen, queue):
    queen("push", queue, "1")
    queen("pop", queue)
    assert queue in queen("top", "--count", "1").out


def test_bench_measures_and_tidies_up(either):
    options = ("--seconds", "0.2", "--clients", "2", "--batch", "10", "--size", "20")
    push, pop = either("bench", *options, "--json").json
    assert (push["what"], pop["what"]) == ("push", "pop and ack")
    assert push["messages"] == pop["messages"] > 0
    assert push["messages"] % 10 == 0
    assert push["rate"] > 0
    assert pop["call_ms_p99"] >= pop["call_ms_median"] > 0
    assert either("queues", "bench-", "--json").json == []


def test_bench_prints_a_table(queen):
    lines = queen("bench", "--seconds", "0.1", "--clients", "1").lines
    assert [line.split()[0] for line in lines[1:]] == ["push", "pop"]
