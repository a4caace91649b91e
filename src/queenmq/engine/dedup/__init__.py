"""Dedup: whether a transaction id is in the log already, answered from memory almost always."""
