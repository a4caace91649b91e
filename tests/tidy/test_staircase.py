"""One staircase: import downstairs, never up, never next door."""

import ast
from collections.abc import Iterator
from pathlib import Path

import queenmq

SOURCE = Path(queenmq.__file__).parent
LEVELS = {
    "errors": 0,
    "data_dir": 0,
    "model": 1,
    "config": 1,
    "sql": 1,
    "api": 2,
    "engine": 3,
    "service": 4,
    "broker": 5,
    "client": 5,
    "spark": 5,
    "cli": 6,
}
BELOW_THE_CLIENT = ("engine", "service")
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """The rooms that a file imports from."""
    here = ["queenmq", *path.relative_to(SOURCE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level], node.module] if node.level else [node.module]
            origin = ".".join(filter(None, base))
            names = [f"{origin}.{alias.name}" for alias in node.names] if origin == "queenmq" else [origin]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("queenmq.") and "__" not in name)


def is_direct_transport(path: Path, imported: str) -> bool:
    """The one exception: without a server, the client brings the engine and the services itself."""
    return room(path) == "client" and imported in BELOW_THE_CLIENT and "postgres" in path.stem


def goes_down(path: Path, imported: str) -> bool:
    """Whether a file may import from a room. In the client, only the direct transport may import what is below."""
    ours = room(path)
    if imported == ours or is_direct_transport(path, imported):
        return True
    return LEVELS[imported] < LEVELS[ours] and not (ours == "client" and imported in BELOW_THE_CLIENT)


def test_imports_go_downstairs():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {imported}"
        for path in FILES
        for imported in imports(path)
        if not goes_down(path, imported)
    ]
    assert wrong == []


def reads_environment(path: Path) -> bool:
    nodes = ast.walk(ast.parse(path.read_text()))
    return any(isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} for node in nodes)


def test_only_config_reads_the_environment():
    readers = {str(path.relative_to(SOURCE)) for path in FILES if reads_environment(path)}
    # The embedded server hands PATH on to PostgreSQL's programs, which is not a setting of ours.
    assert readers == {"config.py", "engine/postgres/embedded/__init__.py"}


def module(path: Path) -> str:
    """The name of a module below queenmq."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def modules_imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, also those for type checkers only."""
    known = {module(each) for each in FILES}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("queenmq."):
            origin = str(node.module).removeprefix("queenmq.")
            for alias in node.names:
                inside = f"{origin}.{alias.name}"
                yield inside if inside in known else origin


def in_a_cycle(room_name: str) -> set[str]:
    """The modules of a room that import themselves, through others of the room."""
    imported = {module(path): set(modules_imported(path)) for path in FILES if room(path) == room_name}
    return {name for name in imported if name in reached_from(name, imported)}


def reached_from(name: str, imported: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    new = imported[name] & imported.keys()
    while new:
        reached |= new
        new = {each for found in new for each in imported[found] & imported.keys()} - reached
    return reached


def test_the_api_the_services_and_the_broker_have_no_import_cycle():
    assert in_a_cycle("api") == in_a_cycle("service") == set()
    assert in_a_cycle("broker") == {"broker.connection", "broker.listener"}  # a connection tells its listener its end
