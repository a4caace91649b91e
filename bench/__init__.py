"""Benchmarks: every figure is a ratio between two things measured side by side in one run.

`make bench` runs all of them on a private PostgreSQL with fsync and synchronous_commit on, and writes
docs/benchmarks.md. `make bench ARGS='push idle'` runs some; `--quick` makes them short, for trying out.
"""
