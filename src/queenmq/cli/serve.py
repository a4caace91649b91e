"""queen serve: the HTTP broker."""

from typing import Annotated

import typer

from queenmq.broker.server import serve
from queenmq.cli.options import DataDir, OwnDsn, command_app, given
from queenmq.config import Settings

app = command_app()


@app.command("serve")
def main(
    dsn: OwnDsn = None,
    data_dir: DataDir = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: QUEEN_HOST, or 127.0.0.1.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on. Default: QUEEN_PORT, or 6632.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Server processes. Default: half as many as there are cores.", show_default=False)
    ] = None,
) -> None:
    """Serve the HTTP API, on a PostgreSQL of its own or on yours.

    It runs until Ctrl-C or SIGTERM, and finishes what it has begun.

    ```
    queen serve
    queen serve --dsn postgresql://me@db.example/shop --port 7000
    ```
    """
    settings = Settings.load(**given(dsn=dsn, data_dir=data_dir, host=host, port=port, workers=workers))
    raise typer.Exit(serve(settings))
