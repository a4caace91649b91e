"""What makes `format("queen")` known to every Spark session on a machine where queenmq is installed.

When a session first needs a data source in Python, Spark imports every installed module whose name begins with
`pyspark_` and registers its `DefaultSource`. So this import must cost almost nothing: it loads the data source itself
only when a query uses it.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from queenmq.spark.source import QueenDataSource


class DefaultSource(DataSource):
    """Stands for `queenmq.spark.QueenDataSource` until a query makes one."""

    def __new__(cls, options: Any) -> "QueenDataSource":  # type: ignore[misc]
        """The data source itself, which Spark uses from here on."""
        from queenmq.spark.source import QueenDataSource  # noqa: PLC0415 (every session imports this module)

        return QueenDataSource(options)

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "queen"
