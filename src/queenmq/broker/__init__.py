"""The HTTP broker: one skin over the engine. Read `app` first."""
