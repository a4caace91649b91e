"""Copy the queue orders into orders-copy, as far as it is filled; run it again for what has come since."""

import sys

from queenmq.spark import session

spark = session(*sys.argv[1:2], name="copy orders")
orders = spark.readStream.format("queen").option("queue", "orders").option("group", "copy").load()
query = (
    orders.writeStream.format("queen")
    .option("queue", "orders-copy")
    .option("partitionColumn", "partition")
    .option("checkpointLocation", sys.argv[2] if len(sys.argv) > 2 else "checkpoints/copy-orders")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
