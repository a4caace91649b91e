"""Settings: read once, checked, frozen; secrets are never shown."""

import base64
import os
from pathlib import Path

import pytest

from queenmq.config import Settings, masked
from queenmq.errors import ConfigurationError
from tests.fixtures.clusters import server_dir

KEY = base64.b64encode(bytes(32)).decode()


def test_an_empty_environment_gives_the_defaults():
    settings = Settings.load({})
    assert settings.dsn is None
    assert settings.pool_size_max == 10
    assert settings.pop_batching is True


def test_values_are_read_by_name_and_type():
    settings = Settings.load(
        {
            "QUEEN_DSN": "postgresql://db/queen",
            "QUEEN_POOL_SIZE_MAX": "25",
            "QUEEN_UPKEEP": "false",
            "QUEEN_TICK_INTERVAL_SECONDS": "0.5",
            "QUEEN_DATA_DIR": "~/queen",
            "QUEEN_DEFAULT_SUBSCRIPTION_MODE": "new",
            "PATH": "/bin",
        }
    )
    assert settings.dsn == "postgresql://db/queen"
    assert settings.pool_size_max == 25
    assert settings.upkeep is False
    assert settings.tick_interval_seconds == 0.5
    assert settings.data_dir == Path("~/queen").expanduser()
    assert settings.default_subscription_mode == "new"


def test_what_is_passed_by_name_wins_over_the_environment():
    settings = Settings.load({"QUEEN_POOL_SIZE_MAX": "25"}, pool_size_max=5, data_dir=Path("/data"))
    assert settings.pool_size_max == 5
    assert settings.data_dir == Path("/data")


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("QUEEN_POOL_SIZE", "9", "did you mean QUEEN_POOL_SIZE_MAX?"),
        ("QUEEN_COMPLETELY_DIFFERENT", "9", "is not a setting of Queen"),
        ("QUEEN_POOL_SIZE_MAX", "3", "QUEEN_POOL_SIZE_MAX: expected `int` >= 4 .it is '3'"),
        ("QUEEN_POOL_SIZE_MAX", "many", "QUEEN_POOL_SIZE_MAX: expected `int` .it is 'many'"),
        ("QUEEN_UPKEEP", "perhaps", "QUEEN_UPKEEP: expected `bool`"),
        ("QUEEN_DEFAULT_SUBSCRIPTION_MODE", "old", "QUEEN_DEFAULT_SUBSCRIPTION_MODE: invalid enum value"),
        ("QUEEN_POLL_INTERVAL_MIN_MS", "6000", "poll_interval_min_ms is larger than poll_interval_max_ms"),
        ("QUEEN_HOSTS", "queen, http://queen", "hosts has 'http://queen', which is not a host name"),
        ("QUEEN_HOSTS", "queen:6632", "hosts has 'queen:6632', which is not a host name"),
        ("QUEEN_HOSTS", "*", "hosts has '.', which is not a host name"),
        ("QUEEN_CORS_ORIGINS", "shop.example", "cors_origins has 'shop.example', which is not an origin"),
        ("QUEEN_CORS_ORIGINS", "https://shop.example/", "cors_origins has 'https://shop.example/', which is not"),
        ("QUEEN_CORS_ORIGINS", "null", "cors_origins has 'null', which is not an origin"),
        ("QUEEN_CORS_ORIGINS", "*", "cors_origins has '.', which is not an origin"),
        ("QUEEN_CORS_ORIGINS", "https://*.shop.example", "which is not an origin"),
    ],
)
def test_a_wrong_setting_stops_the_start(variable, value, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        Settings.load({variable: value})


def test_an_unknown_name_in_code_is_refused_too():
    with pytest.raises(ConfigurationError, match="did you mean QUEEN_POOL_SIZE_MAX"):
        Settings.load({}, pool_size=3)


def test_the_test_suites_own_variables_are_not_settings():
    assert Settings.load({"QUEEN_TEST_DSN": "postgresql://elsewhere"}).dsn is None


def test_the_first_key_encrypts_and_all_are_known():
    settings = Settings.load({"QUEEN_ENCRYPTION_KEYS": f"new:{KEY}, old:{KEY}"})
    assert list(settings.key_ring()) == ["new", "old"]
    assert settings.key_ring()["old"] == bytes(32)


@pytest.mark.parametrize("keys", ["nonsense", "id:not base64", f":{KEY}", f"id:{KEY[:8]}", f"id:{KEY},id:{KEY}"])
def test_a_wrong_key_is_refused_without_being_shown(keys):
    with pytest.raises(ConfigurationError, match="encryption_keys") as raised:
        Settings.load({"QUEEN_ENCRYPTION_KEYS": keys})
    assert KEY[:8] not in str(raised.value)


def test_secrets_are_not_shown():
    shown = repr(Settings.load({"QUEEN_DSN": "postgresql://u:geheim@db/q", "QUEEN_ENCRYPTION_KEYS": f"id:{KEY}"}))
    assert "geheim" not in shown
    assert KEY not in shown
    assert "postgresql://u:***@db/q" in shown


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://u:p%40ss@db:5432/q", "postgresql://u:***@db:5432/q"),
        ("postgresql://db:5432/q", "postgresql://db:5432/q"),
        ("postgresql://db/q?user=u&password=p&port=1", "postgresql://db/q?user=u&password=***&port=1"),
        ("host=db password='a b' user=u", "host=db password=*** user=u"),
        ("postgresql:///q?host=/run/queen", "postgresql:///q?host=/run/queen"),
    ],
)
def test_a_dsn_is_shown_without_its_password(dsn, shown):
    assert masked(dsn) == shown


def installed(package):
    """Where this copy of the package believes that it is."""
    package.mkdir(parents=True)
    (package / "data_dir.py").touch()
    return str(package / "data_dir.py")


@pytest.fixture
def checkout(monkeypatch):
    """The package runs from a checkout, in which everybody may enter."""
    with server_dir() as directory:
        monkeypatch.setattr("queenmq.data_dir.__file__", installed(directory / "src" / "queenmq"))
        (directory / "pyproject.toml").write_text('[project]\nname = "queenmq"\n')
        yield directory


@pytest.mark.parametrize("user", [0, 1000])
def test_a_checkout_keeps_its_data_in_the_checkout(checkout, monkeypatch, user):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    assert Settings.load({}).data_dir == checkout / ".queen"
    assert Settings.load({"QUEEN_DATA_DIR": "/elsewhere"}).data_dir == Path("/elsewhere")


def test_root_keeps_its_data_elsewhere_when_postgresql_cannot_enter_the_checkout(checkout, monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    checkout.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Settings.load({}).data_dir == Path("/var/lib/queenmq")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Settings.load({}).data_dir == checkout / ".queen"


def test_the_data_of_an_installed_package_is_in_the_data_directory_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr("queenmq.data_dir.__file__", installed(tmp_path / "site-packages" / "queenmq"))
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    assert Settings.load({}).data_dir == Path("/data/of/user/queenmq")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Settings.load({}).data_dir == Path("/var/lib/queenmq")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Settings.load({}).data_dir == Path.home() / ".local/share/queenmq"


def test_settings_do_not_change():
    with pytest.raises(AttributeError):
        Settings.load({}).pool_size_max = 11
