"""The SQL of Queen as files: contents.sql names them in reading order, which is the order they are loaded in.

schema/     numbered steps that change what is stored: run once, never edited
functions/  one function per file, loaded again when the file changes
views/      the same
grants.sql  the roles and their rights, given again after each migration that loads anything
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from queenmq.errors import ConfigurationError

DIRECTORY = Path(__file__).parent
ROLES = ("queen_producer", "queen_consumer", "queen_reader", "queen_admin")  # of grants.sql

_INCLUDE = re.compile(r"\\ir\s+(\S+)")
_NUMBERED = re.compile(r"schema/(\d{4})_(\w+)\.sql")


@dataclass(frozen=True)
class File:
    """One SQL file, named relative to contents.sql."""

    name: str
    text: str

    @cached_property
    def hash(self) -> str:
        """What tells this content from any other."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_function(self) -> bool:
        """Whether it creates a function."""
        return self.name.startswith("functions/")

    @property
    def is_grants(self) -> bool:
        """Whether it gives rights, after everything else was loaded."""
        return self.name == "grants.sql"


@dataclass(frozen=True)
class Step:
    """One numbered change of the schema; a breaking one begins with the line `-- breaking`."""

    version: int
    name: str
    text: str

    @property
    def breaking(self) -> bool:
        """Whether code that does not know this step must refuse to run."""
        return self.text.startswith("-- breaking")


@dataclass(frozen=True)
class Contents:
    """All files that contents.sql names: the steps, then the code."""

    steps: tuple[Step, ...]
    code: tuple[File, ...]

    @classmethod
    def read(cls, directory: Path = DIRECTORY) -> Self:
        """Read the table of contents and every file in it."""
        lines = (directory / "contents.sql").read_text(encoding="utf-8").splitlines()
        included = [found[1] for line in lines if (found := _INCLUDE.match(line))]
        files = [File(name, (directory / name).read_text(encoding="utf-8")) for name in included]
        steps = tuple(_step(file) for file in files if file.name.startswith("schema/"))
        if [step.version for step in steps] != list(range(1, len(steps) + 1)):
            raise ConfigurationError("the steps in contents.sql are not numbered 0001, 0002, … in order")
        return cls(steps, tuple(file for file in files if not file.name.startswith("schema/")))


def _step(file: File) -> Step:
    found = _NUMBERED.fullmatch(file.name)
    if found is None:
        raise ConfigurationError(f"{file.name} is not named like schema/0001_what_it_does.sql")
    return Step(int(found[1]), found[2], file.text)
