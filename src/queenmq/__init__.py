"""Queen: a partitioned message queue on PostgreSQL."""

TYPE_CHECKING = False  # for type checkers True; typing itself would take longer to import than all the rest

if TYPE_CHECKING:
    from queenmq.client.answers import Pushed, Record
    from queenmq.client.handler import GiveUp
    from queenmq.client.message import AsyncMessage
    from queenmq.client.outgoing import Outgoing
    from queenmq.client.queen import AsyncQueen
    from queenmq.client.queue import AsyncQueue
    from queenmq.client.stop import Stop
    from queenmq.client.sync.message import Message
    from queenmq.client.sync.queen import Queen
    from queenmq.client.sync.queue import Queue
    from queenmq.errors import QueenError

__version__ = "0.1.0"

__all__ = [
    "AsyncMessage",
    "AsyncQueen",
    "AsyncQueue",
    "GiveUp",
    "Message",
    "Outgoing",
    "Pushed",
    "Queen",
    "QueenError",
    "Queue",
    "Record",
    "Stop",
    "__version__",
]

_PLACES = {
    "AsyncMessage": "client.message",
    "AsyncQueen": "client.queen",
    "AsyncQueue": "client.queue",
    "GiveUp": "client.handler",
    "Message": "client.sync.message",
    "Outgoing": "client.outgoing",
    "Pushed": "client.answers",
    "Queen": "client.sync.queen",
    "QueenError": "errors",
    "Queue": "client.sync.queue",
    "Record": "client.answers",
    "Stop": "client.stop",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is: `import queenmq` alone costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    """Complete these names at a prompt, although most of them are not imported yet."""
    return __all__
