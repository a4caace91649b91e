"""The fields of a payload: what Spark can read is accepted, word for word as it stands in a DDL."""

import pytest
from pyspark.sql.types import StructType

from queenmq.spark.ddl import TYPES, check_fields

PARAMETERS = {"array": "<int>", "map": "<string,int>", "struct": "<n int>", "char": "(3)", "varchar": "(3)"}
PARAMETERS |= {"character": "(3)", "interval": " day to second"}
ACCEPTED = (
    "total double, customer string",
    "a struct<b: array<map<string, decimal(10, 2)>>, `c d`: int not null comment 'e, f'>, g timestamp_ntz",
    "`with ``tick` int, 1st bigint",
    "a STRING NOT NULL COMMENT 'x', b Int",
    "a struct<>",
    "a string collate unicode",
    "a interval year",
    "`größe` int",
)


@pytest.mark.parametrize("fields", [*ACCEPTED, *(f"a {kind}{PARAMETERS.get(kind, '')}" for kind in TYPES)])
def test_what_spark_can_read_is_accepted(spark, fields):
    check_fields(fields)
    assert StructType.fromDDL(f"payload struct<{fields}>").names == ["payload"]
