"""A driver of its own, to be killed: copies one queue into another until nothing is left, then ends.

It knows the database from QUEEN_DSN, as do its executors, wherever they are.
"""

import sys

from queenmq.spark import session


def main(checkpoint: str, master: str) -> None:
    spark = session(master, name="copy", config={"spark.sql.streaming.minBatchesToRetain": "2"})
    spark.sparkContext.setLogLevel("OFF")
    live = spark.readStream.format("queen").options(queue="orders", group="copy", maxOffsetsPerTrigger="120")
    query = (
        live.load().writeStream.format("queen").options(queue="copy", partitionColumn="partition")
        .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    sys.stdout.write("done\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
