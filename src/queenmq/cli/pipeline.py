"""queen pipeline: what Spark does with a queue's history."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from queenmq.cli.options import Json, Limit, PipelineDsn, command_app, given, moment
from queenmq.cli.printing import console, print_facts, print_json, print_table, printable, seconds_text
from queenmq.config import Settings
from queenmq.engine.postgres.embedded.local import session_dsn
from queenmq.errors import ConfigurationError

try:
    from queenmq.spark.pipelines.job import Listener, recorded_runs
    from queenmq.spark.pipelines.job import Progress as Told
    from queenmq.spark.pipelines.jobs import perform
    from queenmq.spark.pipelines.page import write_page
    from queenmq.spark.pipelines.report import Report
    from queenmq.spark.pipelines.schedule import load_schedule, run_schedule
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"pipelines need Spark: pip install 'queenmq[spark]', or in a checkout pip install -e '.[spark]' ({error})"
    ) from None

Master = Annotated[str, typer.Option(help="Where Spark runs: local[*], or the address of a cluster.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Queue = Annotated[str, typer.Argument(help="The queue.")]
Queues = Annotated[list[str] | None, typer.Argument(metavar="QUEUE", help="These queues. Default: all.")]
Archive = Annotated[str | None, typer.Option(help="Also what is in the archive at this place.")]
Where = Annotated[str | None, typer.Option(help="A condition in Spark's SQL, such as: partition = 'ann'.")]
Since = Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Pushed at this moment or later.")]
Until = Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Pushed before this moment.")]
Trace = Annotated[str | None, typer.Option(help="Only messages of this trace.")]
Plaintext = Annotated[bool, typer.Option("--plaintext", help="Write what an encrypted queue has in the clear.")]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on although PostgreSQL has lost a part of history.")
]
Html = Annotated[str | None, typer.Option(help="Write a page with pictures to this file.")]

LOCAL = "local[*]"
EVERY = ("dsn", "master", "dry_run", "json")  # the options of every pipeline

app = command_app()


def job(name: str) -> Callable[[Callable[..., None]], None]:
    """Make a command of a signature and its help: what its options say is what the pipeline is given.

    The options of every pipeline come by themselves.
    """

    def register(described: Callable[..., None]) -> None:
        def command(
            *,
            dsn: PipelineDsn = None,
            master: Master = LOCAL,
            dry_run: DryRun = False,
            json: Json = False,
            html: str | None = None,
            **own: Any,
        ) -> None:
            _run(name, given(**own), dsn, master, dry_run=dry_run, json=json, html=html)

        every = inspect.signature(command).parameters
        parameters = {**inspect.signature(described).parameters, **{each: every[each] for each in EVERY}}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # which Typer reads
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters.values()]
        )
        command.__annotations__ = {each.name: each.annotation for each in parameters.values()}
        command.__doc__ = described.__doc__
        app.command(name)(command)

    return register


@app.callback()
def main() -> None:
    """Archive, replay, aggregate and analyse messages with Spark.

    ```
    queen pipeline archive orders --to /archive
    queen pipeline stats orders --archive /archive --html orders.html
    ```
    """


@app.command("archive")
def archive(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE", help="The queues.")],
    location: Annotated[str, typer.Option("--to", help="A directory, or an address such as s3://bucket/path.")] = "",
    schema: Annotated[str | None, typer.Option(help="Fields of the payload as DDL, for a typed column data.")] = None,
    messages_per_step: Annotated[
        int, typer.Option(min=1, metavar="N", help="How much is written before it is committed.")
    ] = 2_000_000,
    messages_per_file: Annotated[int, typer.Option(min=1, metavar="N", help="About how many a file holds.")] = 500_000,
    dsn: PipelineDsn = None,
    master: Master = LOCAL,
    *,
    plaintext: Plaintext = False,
    accept_loss: AcceptLoss = False,
    stop: Annotated[bool, typer.Option("--stop", help="Archive no longer: retention does not wait any more.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Write queues to Parquet; from then on retention deletes only what is in the archive.

    ```
    queen pipeline archive orders bills --to s3://bucket/archive
    ```
    """
    if stop == bool(location):
        raise typer.BadParameter("say where with --to, or end it with --stop")
    if stop:
        return _run("stop-archive", {"queues": queues}, dsn, master, dry_run=dry_run, json=json)
    arguments = {
        "queues": queues, "location": location, "schema": schema, "messages_per_step": messages_per_step,
        "messages_per_file": messages_per_file, "plaintext": plaintext, "accept_loss": accept_loss,
    }  # fmt: skip
    return _run("archive", arguments, dsn, master, dry_run=dry_run, json=json)


@job("history")
def history(
    queue: Queue,
    *,
    archive: Archive = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    trace: Trace = None,
    to: Annotated[str | None, typer.Option(help="Write the messages to this directory.")] = None,
    format: Annotated[Literal["parquet", "json"], typer.Option(help="How to write them.")] = "parquet",
    plaintext: Plaintext = False,
) -> None:
    """Count or export all messages of a queue, archived and live, day by day.

    ```
    queen pipeline history orders --archive /archive --since 2030-01-01T00:00:00Z
    queen pipeline history orders --where "partition = 'ann'" --to /tmp/ann
    ```
    """


@job("replay")
def replay(
    queue: Queue,
    *,
    to: Annotated[str, typer.Option(help="The queue that gets the messages.")],
    archive: Archive = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    trace: Trace = None,
    rate: Annotated[float | None, typer.Option(help="At most so many messages a second.")] = None,
    label: Annotated[str, typer.Option(help="Another label is another replay: it is pushed again.")] = "1",
    plaintext: Plaintext = False,
) -> None:
    """Push messages again, into a queue of your choice, in their partitions and their order.

    ```
    queen pipeline replay orders --to orders-again --archive /archive
    ```
    """


@job("stats")
def stats(
    queues: Queues = None,
    archive: Archive = None,
    since: Since = None,
    until: Until = None,
    html: Html = None,
) -> None:
    """Show throughput, lag, skew, payload sizes, retries and dead letters.

    ```
    queen pipeline stats orders --html stats.html
    ```
    """


@job("traces")
def traces(
    queues: Queues = None,
    archive: Archive = None,
    since: Since = None,
    until: Until = None,
    html: Html = None,
) -> None:
    """Follow traces through the queues: their paths, the time of each step, where they stop.

    ```
    queen pipeline traces orders bills
    ```
    """


@job("aggregate")
def aggregate(
    file: Annotated[str, typer.Argument(help="A TOML file that says what is aggregated.")],
    checkpoint: Annotated[str, typer.Option(help="A directory in which it remembers how far it is.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until interrupted.")] = False,
    backfill: Annotated[
        bool,
        typer.Option("--backfill", help="What was pushed before the first run is never late, however old its events."),
    ] = False,
    accept_loss: AcceptLoss = False,
) -> None:
    """Aggregate a queue into another one, window by window.

    ```
    queen pipeline aggregate sales.toml --checkpoint /var/lib/sales
    queen pipeline aggregate sales.toml --checkpoint /var/lib/sales-history --backfill
    ```
    """


@job("dlq-triage")
def triage(
    queues: Queues = None,
) -> None:
    """Sort dead letters by error and shape, and suggest which to redrive.

    ```
    queen pipeline dlq-triage orders
    ```
    """


@job("schema")
def schema(
    queue: Queue,
    archive: Archive = None,
    where: Where = None,
    since: Since = None,
    ddl: Annotated[str | None, typer.Option(help="Write the DDL to this file.")] = None,
    model: Annotated[str | None, typer.Option(help="Write a Python model to this file.")] = None,
) -> None:
    """Learn the schema of a queue's payloads.

    ```
    queen pipeline schema orders --ddl orders.ddl --model orders.py
    ```
    """


@app.command("run")
def run(
    file: Annotated[str, typer.Argument(help="A TOML file with a [[job]] for each pipeline.")],
    html: Html = None,
    dsn: PipelineDsn = None,
    master: Master = LOCAL,
    *,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run several pipelines in order.

    ```
    queen pipeline run nightly.toml --html nightly.html
    ```
    """
    schedule = load_schedule(file)
    reports = []
    with _progress() as listen:
        for report in run_schedule(schedule, listen, dsn=dsn, master=master, dry_run=dry_run):
            reports.append(report)
            if not json:
                print(f"\n== {report.title} ==\n")
            _show(report, json=json)
    if html is not None:
        write_page(html, file, reports)


@app.command("runs")
def runs(limit: Limit = 20, dsn: PipelineDsn = None, *, json: Json = False) -> None:
    """List what ran, newest first; lost is what was ended from outside."""
    listed = recorded_runs(dsn or session_dsn(Settings.load()), limit)
    if json:
        print_json(listed)
        return
    columns = ("id", "name", "started_at", "seconds", "state", "rows", "error")
    lines = [tuple(seconds_text(row[name]) if name == "seconds" else row[name] for name in columns) for row in listed]
    print_table(columns, lines, "No pipeline has run yet.")


def _run(
    name: str, arguments: dict[str, Any], dsn: str | None, master: str, *, dry_run: bool, json: bool,
    html: str | None = None,
) -> None:  # fmt: skip
    with _progress() as listen:
        report = perform(name, arguments, dsn=dsn, master=master, dry_run=dry_run, listen=listen)
    if html is not None:
        write_page(html, f"queen pipeline {name}", [report])
    _show(report, json=json)


def _show(report: Report, *, json: bool) -> None:
    if json:
        print_json(report.plain())
        return
    facts = {name: ", ".join(value) if isinstance(value, list) else value for name, value in report.facts.items()}
    texts = {name: value for name, value in facts.items() if "\n" in str(value)}
    print_facts({name: value for name, value in facts.items() if name not in texts})
    for name, text in texts.items():
        print(f"\n{name}", *map(printable, text.splitlines()), sep="\n")
    for name, table in report.tables.items():
        print(f"\n{name}")
        print_table(table.columns, table.rows, "Nothing.")


@contextmanager
def _progress() -> Iterator[Listener]:
    """A bar at a terminal; nothing where nobody looks."""
    shown = console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("starting", total=None, rate="")

        def listen(told: Told) -> None:
            rate = f"{told.rate:,.0f} rows/s"
            bar.update(task, description=told.step, completed=told.rows, total=told.total, rate=rate)

        yield listen
