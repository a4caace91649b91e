"""A driver of its own that runs pipelines one after the other on a cluster."""

import sys

from queenmq.spark import session
from queenmq.spark.pipelines.jobs import perform


def main(archive: str, master: str) -> None:
    spark = session(master, name="pipelines")
    spark.sparkContext.setLogLevel("OFF")
    arguments = {
        "archive": {"queues": ["orders"], "location": archive},
        "history": {"queue": "orders", "archive": archive},
        "replay": {"queue": "orders", "archive": archive, "to": "again"},
        "stats": {"queues": ["orders"]},
        "schema": {"queue": "orders"},
    }
    for name, given in arguments.items():
        perform(name, given, spark=spark)
    sys.stdout.write("done\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
