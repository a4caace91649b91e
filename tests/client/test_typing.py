"""Users' programs are checked: mypy --strict sees through the SDK, and finds their mistakes."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "user_program.py"


def test_a_users_program_is_typed_throughout(tmp_path):
    options = [
        "--strict",
        "--warn-unused-ignores",
        f"--cache-dir={tmp_path}",
        "--config-file=",
        "--follow-imports=silent",
    ]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_importing_queenmq_imports_nothing_else():
    program = (
        "import sys; before = set(sys.modules); import queenmq; "
        "assert set(sys.modules) - before == {'queenmq'}, set(sys.modules) - before; "
        "from queenmq import Queen; "
        "assert not {'aiohttp', 'asyncpg', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    program = "import queenmq; assert all(hasattr(queenmq, name) for name in queenmq.__all__); queenmq.Quen"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "AttributeError: module 'queenmq' has no attribute 'Quen'" in failed.stderr


def test_dir_of_the_package_has_its_names_and_nothing_else():
    program = "import queenmq; assert dir(queenmq) == sorted(queenmq.__all__), dir(queenmq); queenmq.Queen"
    subprocess.run([sys.executable, "-c", program], check=True)
