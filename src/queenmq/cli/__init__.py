"""The front door: one file per command."""
