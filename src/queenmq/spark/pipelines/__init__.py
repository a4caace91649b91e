"""Pipelines: what a queue's owner does with its history. One file per job; `queen pipeline` runs them."""
