"""Push: from the messages of callers to segments in the log."""
