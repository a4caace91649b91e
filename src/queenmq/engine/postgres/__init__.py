"""PostgreSQL as the engine uses it: calls and their lost answers, sessions, standbys, migrations, a private server."""
