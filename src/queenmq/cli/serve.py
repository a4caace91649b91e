"""queen serve: the HTTP broker."""

import argparse

from queenmq.broker.server import serve
from queenmq.config import Settings

FLAGS = ("dsn", "data_dir", "host", "port", "workers")


def main(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    given = {name: getattr(arguments, name) for name in FLAGS}
    return serve(Settings.load(**{name: value for name, value in given.items() if value is not None}))
