"""What a client finds out of reach: a server that does not answer, or itself."""

from queenmq.errors import Closed, Unavailable


class ClientClosed(Closed):
    """This client was closed."""

    hint = "Make a new one: what was closed stays closed."


class NotSent(Unavailable):
    """No server could be reached; nothing was sent."""

    hint = "Check the address, and that a server runs there: queen serve."
