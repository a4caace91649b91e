"""A small SQL tree that a test may change, to migrate with."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

TABLE = "create table queen.things (id int primary key);\n"
COUNT = """create function queen.count_things() returns bigint language sql as
    'select count(*) from queen.things';
"""
VIEW = "create view queen.all_things as select id, queen.count_things() as total from queen.things;\n"


@dataclass
class Tree:
    """The files of a SQL tree, written when a directory is asked for."""

    path: Path
    files: dict[str, str] = field(default_factory=dict)

    def directory(self) -> Path:
        for name, text in self.files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.path / "contents.sql").write_text("".join(f"\\ir {name}\n" for name in self.files))
        return self.path


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(
        tmp_path / "sql",
        {
            "schema/0001_things.sql": TABLE,
            "functions/count_things.sql": COUNT,
            "views/all_things.sql": VIEW,
        },
    )
