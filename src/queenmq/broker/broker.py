"""What routes work with, in one server process."""

from collections.abc import Sequence

from queenmq.api.diagnosis import Check
from queenmq.broker.delivered import RunTexts
from queenmq.broker.deliveries import Deliveries
from queenmq.broker.exposure import examine_access
from queenmq.broker.metrics import Metrics
from queenmq.broker.spool import Spool
from queenmq.config import Settings, masked
from queenmq.engine import Engine
from queenmq.engine.availability import Presence
from queenmq.engine.checkup import disk
from queenmq.engine.readiness import Readiness


class Broker:
    """What routes work with."""

    def __init__(
        self, engine: Engine, presence: Presence, spool: Spool | None, settings: Settings, metrics: Metrics
    ) -> None:
        self.engine = engine
        self.presence = presence
        self.readiness = Readiness(engine.database, presence)
        self.spool = spool
        self.settings = settings
        self.metrics = metrics
        self.deliveries = Deliveries()
        self.texts = RunTexts()

    async def buffered(self) -> tuple[int, int, int]:
        """The messages in the spool, their bytes, and the messages that were refused."""
        return (0, 0, 0) if self.spool is None else await self.spool.buffered()

    def own_checks(self) -> tuple[Sequence[Check], Sequence[Check]]:
        """What `queen doctor` says about this server."""
        database = Check(name="database", severity="ok", detail=masked(self.engine.database.dsn))
        spool = [] if self.spool is None else [disk("disk of the spool", self.spool.directory)]
        return [database, examine_access(self.settings)], spool
