"""Spark finds `format("queen")` by itself wherever the package is installed."""

import asyncio
import subprocess
import sys

# What a user's program does that knows nothing of queenmq.spark.session.
PROGRAM = """
import sys, threading
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def read(session):
    rows = session.read.format("queen").options(url=sys.argv[1], queue="orders").load()
    print([row.payload for row in rows.orderBy("offset").collect()])

read(spark)
other = threading.Thread(target=read, args=[spark.newSession()])
other.start()
other.join()
rows = spark.createDataFrame([('"written"',)], "payload string")
rows.write.format("queen").options(url=sys.argv[1], queue="orders").mode("append").save()
read(spark)
spark.stop()
"""
IMPORT = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_queen
print(sorted(set(sys.modules) - before))
"""


async def test_a_session_reads_and_writes_without_registration_also_in_other_threads(spark, push, database):
    await push("orders", "Default", 1, 2)
    command = [sys.executable, "-c", PROGRAM, database]  # `spark` has made sure that there is a Java
    done = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['1', '2']", "['1', '2']", "['1', '2', '\"written\"']"]


def test_a_session_that_uses_no_queue_loads_almost_nothing():
    done = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['pyspark_queen']"
