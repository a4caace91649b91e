"""schema: what the payloads of a queue look like, as DDL for Spark and as a model for Python."""

import keyword
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, StructType, VariantType

from queenmq.errors import InvalidPayload
from queenmq.spark.pipelines.history import chosen, messages
from queenmq.spark.pipelines.job import Job, kept
from queenmq.spark.pipelines.report import Report, Table

PYTHON = {"bigint": "int", "double": "float", "string": "str", "boolean": "bool"}
FIELDS_MAX = 200  # of a report


def schema(
    job: Job,
    *,
    queue: str,
    archive: str | None = None,
    where: str | None = None,
    since: datetime | None = None,
    ddl: str | None = None,
    model: str | None = None,
) -> Report:
    """Infer a schema from all payloads; with `ddl` and `model`, write it to these files."""
    rows = chosen(messages(job, queue, archive), where, since).select(sf.try_parse_json("payload").alias("v"))
    with kept(rows):
        first: Any = rows.agg(sf.count("v"), sf.schema_of_variant_agg("v")).first()
        total, told = first
        if not total:
            raise InvalidPayload(f'queue "{queue}" has no messages to learn from')
        kind = parsed(told)
        job.tell("schema", total, total)
        tables = {}
        texts = {"ddl": fields_ddl(kind)}
        if isinstance(kind, StructType):
            found = _fields(rows, list(_paths(kind))[:FIELDS_MAX], total)
            tables["fields"] = found
            required = {row[0] for row in found.rows if row[2] == total and row[3] == 0}
            texts["model"] = python_model(_class_name(queue), kind, required)
    for path, name in ((ddl, "ddl"), (model, "model")):
        if path is not None and not job.dry_run:
            if name not in texts:
                raise InvalidPayload(f'payloads of "{queue}" are no objects, so there is no model of them')
            Path(path).write_text(texts[name].rstrip() + "\n", encoding="utf-8")
    return Report("schema", total, {"queue": queue, "messages": total, **texts}, tables)


def parsed(told: str) -> DataType:
    """A type of Spark's from what schema_of_variant says; sometimes this, sometimes that is a variant."""
    numbers = re.sub(r"\bDECIMAL\(\d+,\d+\)", "DOUBLE", told)
    return DataType.fromDDL(re.sub(r"\bVOID\b", "STRING", numbers).replace("OBJECT<", "STRUCT<"))


def fields_ddl(kind: DataType) -> str:
    """The fields of a payload as options such as payloadFormat take them."""
    if not isinstance(kind, StructType):
        return kind.simpleString()
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in kind)


def python_model(name: str, kind: StructType, required: set[str], prefix: str = "") -> str:
    """Classes of msgspec; a field that may be missing or null has a default."""
    inner: list[str] = []
    lines: list[tuple[bool, str]] = []
    for each in kind:
        path = f"{prefix}{each.name}"
        hint = _hint(each.dataType, f"{name}{_class_name(each.name)}", inner, required, f"{path}.")
        attribute = re.sub(r"\W", "_", each.name)
        if not attribute.isidentifier() or keyword.iskeyword(attribute):
            attribute = f"field_{attribute}"
        renamed = f"name={each.name!r}" if attribute != each.name else ""
        if path in required:
            lines.append((False, f"    {attribute}: {hint}" + (f" = field({renamed})" if renamed else "")))
        else:
            default = f"field(default=None, {renamed})" if renamed else "None"
            optional = hint if hint == "Any" else f"{hint} | None"
            lines.append((True, f"    {attribute}: {optional} = {default}"))
    body = "\n".join(line for _, line in sorted(lines, key=lambda line: line[0])) or "    pass"
    classes = "".join(f"{each}\n\n\n" for each in inner) + f"class {name}(Struct, kw_only=True):\n{body}"
    return classes if prefix else f"{_imports(classes)}\n\n\n{classes}"


def _imports(classes: str) -> str:
    """What the classes need, and no more."""
    typing = "from typing import Any\n\n" if re.search(r"\bAny\b", classes) else ""
    return f"{typing}from msgspec import Struct{', field' if 'field(' in classes else ''}"


def _hint(kind: DataType, name: str, inner: list[str], required: set[str], prefix: str) -> str:
    if isinstance(kind, StructType):
        inner.append(python_model(name, kind, required, prefix))
        return name
    if isinstance(kind, ArrayType):
        return f"list[{_hint(kind.elementType, name, inner, set(), f'{prefix}[].')}]"
    return PYTHON.get(kind.simpleString(), "Any")


def _paths(kind: StructType, prefix: str = "") -> Iterator[tuple[str, DataType]]:
    """Every field, and those inside of objects, by path."""
    for each in kind:
        yield f"{prefix}{each.name}", each.dataType
        if isinstance(each.dataType, StructType):
            yield from _paths(each.dataType, f"{prefix}{each.name}.")


def _fields(rows: DataFrame, paths: list[tuple[str, DataType]], total: int) -> Table:
    """How often each field is there, is null, and what it is; all in one pass."""
    counts = []
    for path, _ in paths:
        value = sf.variant_get("v", "$" + "".join(f"['{part}']" for part in path.split(".")), "variant")
        counts += [sf.count(value), sf.sum(sf.is_variant_null(value).cast("int")),
                   sf.array_sort(sf.collect_set(sf.schema_of_variant(value)))]  # fmt: skip
    found: Any = rows.agg(*counts).first() if counts else ()
    lines = []
    for number, (path, kind) in enumerate(paths):
        present, nulls, kinds = found[3 * number : 3 * number + 3]
        seen = ", ".join(each for each in kinds if each != "VOID") if isinstance(kind, VariantType) else ""
        lines.append((path, kind.simpleString(), present, nulls or 0, total - present, seen))
    return Table.of(("field", "type", "present", "null", "missing", "variants"), lines)


def _class_name(name: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    made = "".join(word[0].upper() + word[1:] for word in words)
    return made if made.isidentifier() else f"Payload{made}"
