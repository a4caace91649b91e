"""Payloads as Spark wants them: JSON text, bytes, VARIANT, or values of a schema."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json
from pyspark.sql.types import StructType, VariantType, VariantVal

from queenmq.errors import InvalidPayload
from queenmq.spark.connection import explained

_HEAD, _BETWEEN, _TAIL = b'{"payload":', b'}\n{"payload":', b"}\n"


class Payloads:
    """Turns JSON texts into the payload column of a schema, and says which ones do not fit."""

    def __init__(self, schema: StructType, arrow: pa.Schema, *, failfast: bool) -> None:
        self._variant = "payload" in arrow.names and isinstance(schema["payload"].dataType, VariantType)
        self._type = arrow.field("payload").type if "payload" in arrow.names else pa.string()
        self._failfast = failfast

    def array(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The payloads, and for each of them what is wrong with it (null: nothing); a text that is null stays null."""
        if self._type in (pa.string(), pa.binary()):
            same = pa.Array.from_buffers(self._type, len(texts), texts.buffers())  # JSON is UTF-8: not checked again
            return same, pa.nulls(len(texts), pa.string())
        pieces = texts.to_pylist()
        if self._variant:
            return self._variants(pieces), pa.nulls(len(pieces), pa.string())
        pieces = [b"null" if piece is None else piece for piece in pieces]
        try:
            return self._typed(pieces), pa.nulls(len(pieces), pa.string())
        except pa.ArrowInvalid:
            return self._one_by_one(pieces)

    def _variants(self, pieces: Sequence[bytes | None]) -> pa.Array:
        values = [None if piece is None else VariantVal.parseJson(str(piece, "utf-8")) for piece in pieces]
        return pa.array([each and {"value": each.value, "metadata": each.metadata} for each in values], self._type)

    def _typed(self, pieces: Sequence[bytes]) -> pa.Array:
        """All of them in one go; raises when one does not fit."""
        if not pieces:
            return pa.nulls(0, self._type)
        text = b"".join((_HEAD, _BETWEEN.join(pieces), _TAIL))
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([("payload", self._type)]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        return table["payload"].combine_chunks()

    def _one_by_one(self, pieces: Sequence[bytes]) -> tuple[pa.Array, pa.Array]:
        found: list[pa.Array] = []
        errors: list[str | None] = []
        for piece in pieces:
            try:
                found.append(self._typed([piece]))
                errors.append(None)
            except pa.ArrowInvalid as error:
                if self._failfast:
                    raise explained(InvalidPayload(f"a payload does not fit the schema: {error}")) from None
                found.append(pa.nulls(1, self._type))
                errors.append(str(error))
        return pa.concat_arrays(found), pa.array(errors, pa.string())
