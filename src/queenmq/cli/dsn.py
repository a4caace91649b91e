"""queen dsn: how to reach PostgreSQL itself."""

from queenmq.cli.options import DataDir, Json, command_app, given
from queenmq.cli.printing import print_json
from queenmq.config import Settings
from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.engine.postgres.embedded.local import local_dsn

app = command_app()


@app.command("dsn")
def main(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Print the address of PostgreSQL itself, for psql and others.

    It is QUEEN_DSN with its password, or the address of the private PostgreSQL while a server on this machine runs it.
    With --json also the path of a psql that comes with Queen.

    ```
    psql "$(queen dsn)" -c 'select * from queen.lag'
    ```
    """
    dsn = local_dsn(Settings.load(**given(data_dir=data_dir)))
    if json:
        print_json({"dsn": dsn, "psql": str(wheel_bin_dir() / "psql")})
    else:
        print(dsn)
