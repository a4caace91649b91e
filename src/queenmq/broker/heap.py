"""What the C library does with free memory, where it is one that can be asked: a worker has to stay small.

By default glibc puts large blocks into the heap after the first one was freed. Small blocks behind them then keep
their memory in use.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE_BLOCK_BYTES = 512 << 10  # and more go back to the kernel as soon as they are free; a full segment is as large
FREE_BYTES_MAX = 16 << 20  # that may lie at the end of the heap

_library = ctypes.CDLL(None)
_mallopt = getattr(_library, "mallopt", None)
_trim = getattr(_library, "malloc_trim", None)


def keep_large_blocks_out() -> None:
    """Keep large blocks out of the heap."""
    if _mallopt is not None:
        _mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        _mallopt(M_TRIM_THRESHOLD, FREE_BYTES_MAX)


def give_back() -> None:
    """Give free memory inside the heap back to the kernel; it takes about 10 ms."""
    if _trim is not None:
        _trim(0)
