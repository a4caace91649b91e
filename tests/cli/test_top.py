"""queen top and queen bench, for programs."""


def test_top_prints_a_line_of_json_per_look(either, queue):
    either("push", queue, "1", "2", "3")
    either("pop", queue, "--group", "g")
    looks = either("top", "--json", "--interval", "0.1", "--count", "2").json_lines
    assert len(looks) == 2
    for look in looks:
        [line] = [line for line in look["lines"] if line["queue"] == queue]
        assert (line["group"], line["pending"], line["pushed_rate"], line["dead_lettered"]) == ("g", 2, 0.0, 0)
    assert looks[0]["overview"]["queues"] >= 1


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
