"""The spool: pushes are kept in files while PostgreSQL cannot take them, and stored in order when it can.

A push is spooled when PostgreSQL is away, in maintenance, and as long as anything is in the spool: so it is never
overtaken. It is checked first, written to a file (`spool_files`) and on the disk before it is answered; pushes that
gather share one write. The spool belongs to a server: its workers append to it one after the other, and one of them
stores what is there. Two servers have a spool each.

Why nothing is stored twice. A position is a number of messages of one file; it is a row in PostgreSQL that changes in
the transaction that stores the messages, from one known value to another (queen.push_spooled). Who stores asks for
the position, reads the file from there, and calls. A call whose answer was lost either has moved the position or never
will: when it is repeated it waits for the row's lock, and finds out. It does not matter who repeats it: the same
worker, another one, or the server after a crash. The file is deleted when its position is at its end, the row after
it. What remains is the push that was under way, not from the spool, when the connection broke: it may have been
stored. It is spooled with the mark of its flush, and before it is stored from here, PostgreSQL is asked for segments
that carry this mark; the call that may still be running is abandoned first. (These segments are found unless
retention has removed them, which takes a server that is down for longer than its queues keep messages.)

A message that is refused when it is stored cannot be answered any more. Is its queue full, all wait for it: order
matters more. Is it something else, such as an encrypted queue without a key, the message is set aside in a file of its
own, which is said in the log and counted; it is tried again whenever a worker starts.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct

from queenmq.broker.spool_files import Reader, Record, SpoolFiles
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.availability import Presence
from queenmq.engine.batching import Batcher
from queenmq.engine.crypto import Cipher
from queenmq.engine.push.spooled import PositionMoved
from queenmq.errors import Busy, ConfigurationError, QueenError, QueueFull, Refused, Unavailable
from queenmq.model import FlushMark, Outgoing

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1  # between two looks whether there is something to store
AGAIN_SECONDS = 1.0  # when it could not be stored
STORE_BYTES_MAX = 16 << 20  # in one call
PLAIN, SEALED = b"P", b"E"


class Batch(Struct, array_like=True):
    """The messages of one push, as they stand in a record; the mark, if they may have been stored already."""

    messages: list[Outgoing]
    mark: FlushMark | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class Spool:
    """Takes pushes that have to wait, and stores them."""

    def __init__(self, engine: Engine, presence: Presence, settings: Settings) -> None:
        self._engine = engine
        self._presence = presence
        self._cipher = Cipher(settings.key_ring())
        self._messages_max = settings.push_messages_max
        self.directory = self._directory(settings)
        self._files = SpoolFiles(self.directory, settings.spool_bytes_max)
        self._bytes_max = settings.spool_bytes_max
        self._batcher: Batcher[tuple[Record, bool], bool] = Batcher(
            self._write, calls_max=1, weight=lambda item: len(item[0].body), weight_max=STORE_BYTES_MAX
        )
        self._counting = asyncio.Lock()
        self._positions: dict[UUID, int] = {}  # as last asked
        self._waits_for = ""  # what the log was last told
        self._empty: bool | None = None  # as found in this turn of the event loop

    def _directory(self, settings: Settings) -> Path:
        """One for each database: two servers may have the same settings but for that."""
        directory = (settings.spool_dir or settings.data_dir / "spool") / str(self._presence.installation)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the spool cannot be kept in {directory}: {error.strerror}; set QUEEN_SPOOL_DIR, or QUEEN_SPOOL=false"
            ) from error
        return directory

    @property
    def in_use(self) -> bool:
        """Whether pushes have to go through the spool now."""
        return self._engine.database.away or self._presence.push_paused or not self._is_empty()

    def _is_empty(self) -> bool:
        """Asked once for all pushes that are begun in one turn of the event loop: they had arrived before it began."""
        if self._empty is None:
            self._empty = self._files.is_empty()
            asyncio.get_running_loop().call_soon(self._forget_empty)
        return self._empty

    def _forget_empty(self) -> None:
        self._empty = None

    async def append(self, messages: Sequence[Outgoing], *, required: bool, mark: FlushMark | None) -> bool:
        """Keep messages that were checked; they are on the disk when this returns.

        False where the spool has become empty meanwhile, and is not `required`: pushes go their usual way again.
        """
        return await self._batcher.submit((self._record(Batch(list(messages), mark)), required))

    async def buffered(self) -> tuple[int, int, int]:
        """Messages that wait, the bytes of their files, and messages that were set aside."""
        async with self._counting:
            counts, size = await asyncio.to_thread(self._files.counts)
        with contextlib.suppress(Unavailable):  # then nothing has been stored since we last asked
            self._positions = await self._engine.spooled.positions(list(counts))
        waiting = sum(max(0, count - self._positions.get(id, 0)) for id, count in counts.items())
        return waiting, size, len(self._files.refused())

    async def close(self) -> None:
        """Finish what was accepted; what is in the files stays there."""
        await self._batcher.close()
        self._files.close()

    def _record(self, batch: Batch) -> Record:
        body = _encode(batch)
        sealed = SEALED + self._cipher.encrypt(body) if self._cipher.can_encrypt else PLAIN + body
        return Record(sealed, len(batch.messages))

    def _batch(self, record: Record) -> Batch:
        body = record.body[1:]
        return _decode(self._cipher.decrypt(body) if record.body[:1] == SEALED else body)

    async def _write(self, items: list[tuple[Record, bool]]) -> Sequence[bool | QueenError]:
        always = not self._may_store
        try:
            fates = await asyncio.to_thread(
                self._files.append,
                [record for record, _ in items],
                into_empty=[required or always for _, required in items],
            )
        except OSError as error:
            raise Unavailable(f"the spool cannot be written: {error.strerror}") from error
        full = Busy(f"the spool is full: it holds up to {self._bytes_max} bytes (QUEEN_SPOOL_BYTES_MAX)")
        return [full if fate == "full" else fate == "kept" for fate in fates]

    # -- storing

    async def run(self) -> None:
        """Store what is there whenever that is possible, for ever."""
        pause = 0.0
        retried = False
        while True:
            await asyncio.sleep(pause)
            pause = LOOK_SECONDS
            if not self._may_store:
                continue
            try:
                if not retried:
                    retried = await self._retry_refused()
                elif not self._files.is_empty():
                    await self._store_all()
            except PositionMoved:
                pass  # a call of ours that was thought lost, or another worker: ask again where to go on
            except QueenError as error:
                pause = AGAIN_SECONDS
                if error.message != self._waits_for:
                    log.warning("the spool has to wait", extra={"cause": repr(error)})
                self._waits_for = error.message
                if isinstance(error, Unavailable):
                    self._presence.doubt()
            except OSError:
                pause = AGAIN_SECONDS
                log.exception("the spool cannot be read")

    @property
    def _may_store(self) -> bool:
        return not self._engine.database.away and not self._presence.push_paused

    async def _store_all(self) -> None:
        with self._files.draining() as mine:
            while mine and self._may_store and (segments := self._files.segments()):
                reader = await asyncio.to_thread(Reader, segments[0])
                try:
                    await self._store_segment(reader)
                finally:
                    reader.close()

    async def _store_segment(self, reader: Reader) -> None:
        """Store a file to its end and delete it; for the last records nobody may append, so that the end is one."""
        started = await self._go_to_position(reader)
        while self._may_store and (records := await self._read(reader)):
            started = await self._store(reader, started, records)
        with contextlib.ExitStack() as held:
            await asyncio.to_thread(held.enter_context, self._files.hold())
            while self._may_store and (records := await self._read(reader)):
                started = await self._store(reader, started, records)
            if not self._may_store:
                return
            await asyncio.to_thread(self._files.remove, reader)
        if not reader.damaged:  # else somebody may repair the file, and bring it back
            await self._engine.spooled.forget(reader.id)

    async def _go_to_position(self, reader: Reader) -> int:
        positions = await self._engine.spooled.positions([reader.id], replicated=True)
        position = positions.get(reader.id, 0)
        await asyncio.to_thread(reader.skip, position)
        return position

    async def _read(self, reader: Reader) -> list[Record]:
        return await asyncio.to_thread(reader.read, self._messages_max, STORE_BYTES_MAX)

    async def _store(self, reader: Reader, start: int, records: list[Record]) -> int:
        """Store records that end at the reader's position; what of them lies before `start` is stored already."""
        position = reader.position - sum(record.messages for record in records)
        entries: list[tuple[int, Outgoing]] = []
        for record in records:
            batch = self._batch(record)
            if batch.mark is None or not await self._engine.spooled.was_stored(batch.mark):
                entries += enumerate(batch.messages, position)
            position += record.messages
        await self._push(reader.id, start, position, [entry for entry in entries if entry[0] >= start])
        return position

    async def _push(self, id: UUID, start: int, end: int, entries: list[tuple[int, Outgoing]]) -> None:
        """Push messages by position and go from start to end; a message that is refused is looked for by halves."""
        try:
            await self._engine.spooled.store(id, start, end, [message for _, message in entries])
        except Refused as refusal:
            if len(entries) > 1:
                middle = len(entries) // 2
                await self._push(id, start, entries[middle][0], entries[:middle])
                await self._push(id, entries[middle][0], end, entries[middle:])
                return
            if isinstance(refusal, QueueFull):
                raise
            await self._set_aside(id, entries[0], refusal)
            await self._engine.spooled.store(id, start, end, [])

    async def _set_aside(self, id: UUID, entry: tuple[int, Outgoing], refusal: Refused) -> None:
        position, message = entry
        own_id = uuid5(id, str(position))
        await asyncio.to_thread(self._files.set_aside, own_id, self._record(Batch([message], None)))
        facts = {"queue": message.queue, "partition": message.partition, "code": refusal.code, "file": str(own_id)}
        log.error("a spooled message was refused and set aside", extra=facts)

    def report_others(self) -> None:
        """Say what lies beside ours: the messages of another database are never stored in this one."""
        for path in sorted(self.directory.parent.iterdir()):
            if path != self.directory and (files := sum(1 for _ in path.glob("*.spool"))):
                log.warning(
                    "a spool of another database stays as it is: to store it, run a server on that database",
                    extra={"directory": str(path), "files": files},
                )

    async def _retry_refused(self) -> bool:
        """Try again what was set aside before; answers that this was done, by us or by another worker."""
        with self._files.draining() as mine:
            for path in self._files.refused() if mine else ():
                reader = await asyncio.to_thread(Reader, path)
                try:
                    await self._retry(reader)
                finally:
                    reader.close()
        return True

    async def _retry(self, reader: Reader) -> None:
        start = await self._go_to_position(reader)
        try:
            for record in await self._read(reader):
                await self._engine.spooled.store(reader.id, start, 1, self._batch(record).messages)
        except Unavailable:
            raise
        except QueenError as error:
            log.warning("a message stays set aside", extra={"code": error.code, "file": reader.path.name})
            return
        await asyncio.to_thread(self._files.remove, reader)
        await self._engine.spooled.forget(reader.id)


@contextlib.asynccontextmanager
async def spooling(engine: Engine, presence: Presence, settings: Settings) -> AsyncIterator[Spool | None]:
    """Watch PostgreSQL, and keep pushes that it cannot take; None where that is not wanted."""
    await presence.ask()
    spool = Spool(engine, presence, settings) if settings.spool else None
    tasks = [asyncio.create_task(presence.watch())]
    if spool is not None:
        spool.report_others()
        tasks.append(asyncio.create_task(spool.run()))
    try:
        yield spool
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if spool is not None:
            await spool.close()
