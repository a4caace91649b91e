"""Python workers of Spark, which live on from task to task."""

import gc
from functools import cache


@cache
def settle() -> None:
    """Exempt what is imported from the collection of garbage that Spark makes after every task: it is never garbage."""
    gc.collect()
    gc.freeze()
