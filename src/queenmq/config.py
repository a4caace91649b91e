"""One frozen Settings, read once: the only reader of the environment.

A field is its own documentation: type, range and description stand next to the default, and docs/settings.md
is checked against them by a test. The environment variable of a field is QUEEN_ and its name in capitals.
"""

import base64
import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TextIO
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from queenmq.data_dir import default_data_dir
from queenmq.errors import ConfigurationError

PREFIX = "QUEEN_"
TEST_PREFIX = "QUEEN_TEST_"  # belongs to the test suite, never to a server
SECRETS = frozenset({"auth_secret", "dsn", "encryption_keys", "session_dsn", "token"})
KEY_SOURCES = ("auth_secret", "auth_public_key_file", "auth_jwks_file", "auth_jwks_url")  # of tokens; one at most

_PASSWORD = re.compile(r"(?P<before>://[^:/@\s]*:)[^@\s]*(?=@)|(?P<key>\b(ssl)?password\s*=\s*)('[^']*'|[^&\s]*)")
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?\.?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}  # browsers leave them out


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, with its range, its default and what it means."""

    # -- the database
    dsn: Annotated[
        str | None,
        Meta(description="PostgreSQL 14 or newer to use; without it a private one is started in `data_dir`"),
    ] = None
    session_dsn: Annotated[
        str | None,
        Meta(description="the same database without the pooler, if `dsn` leads to one that pools transactions"),
    ] = None
    data_dir: Annotated[Path, Meta(description="directory of the private PostgreSQL; made when it does not exist")] = (
        msgspec.field(default_factory=lambda: default_data_dir(os.environ.get("XDG_DATA_HOME")))
    )
    pool_size_max: Annotated[
        int, Meta(ge=4, le=1000, description="most connections one process opens to PostgreSQL")
    ] = 10
    statement_timeout_ms: Annotated[
        int, Meta(ge=100, le=3_600_000, description="longest that PostgreSQL may work on one statement")
    ] = 30_000
    lock_timeout_ms: Annotated[
        int, Meta(ge=10, le=3_600_000, description="longest that a statement may wait for a lock")
    ] = 5_000
    retry_attempts_max: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="how often a call is repeated when PostgreSQL, or a client's server, was out of reach",
        ),
    ] = 5

    # -- the server
    host: Annotated[str, Meta(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="port to listen on; 0 for any that is free")] = 6632
    workers: Annotated[
        int, Meta(ge=0, le=256, description="server processes; 0 for half as many as there are cores")
    ] = 0
    header_bytes_max: Annotated[
        int,
        Meta(ge=8_192, le=1_048_576, description="about how much the address and the headers of a request may have"),
    ] = 65_536
    body_bytes_max: Annotated[int, Meta(ge=1024, description="largest body of one request")] = 67_108_864
    bodies_bytes_max: Annotated[
        int, Meta(ge=1_048_576, description="bytes of bodies that one server process works on at a time; others wait")
    ] = 33_554_432
    body_timeout_ms: Annotated[
        int, Meta(ge=100, le=3_600_000, description="longest that a body may take to arrive")
    ] = 30_000
    push_items_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="most messages or acknowledgements in one request")
    ] = 10_000
    connections_max: Annotated[int, Meta(ge=1, description="connections one server process takes at a time")] = 20_000
    allow_unprotected: Annotated[
        bool, Meta(description="listen on other addresses than loopback although nobody is asked for a token")
    ] = False
    hosts: Annotated[
        str | None,
        Meta(
            description="host names, with commas, that requests may be addressed to when the server asks for no tokens"
        ),
    ] = None
    cors_origins: Annotated[
        str | None,
        Meta(description="origins, with commas, whose web pages may use this server, such as `https://shop.example`"),
    ] = None
    stop_seconds_max: Annotated[
        float, Meta(ge=0, le=3600, description="longest that a stopping server waits for requests in flight")
    ] = 30

    # -- the client
    url: Annotated[
        str | None,
        Meta(description="servers that the SDK and the command line talk to: one address, or several with commas"),
    ] = None
    token: Annotated[
        Annotated[str, Meta(min_length=1)] | None, Meta(description="token that the client shows to these servers")
    ] = None
    request_timeout_ms: Annotated[
        int,
        Meta(
            ge=100, le=3_600_000, description="longest that the client waits for an answer it did not ask to wait for"
        ),
    ] = 60_000

    # -- the spool
    spool: Annotated[
        bool, Meta(description="keep pushes in files while PostgreSQL is away or in maintenance, and store them later")
    ] = True
    spool_dir: Annotated[
        Path | None, Meta(description="directory of these files; without it, `spool` in `data_dir`")
    ] = None
    spool_bytes_max: Annotated[
        int, Meta(ge=65_536, description="most bytes in these files; beyond it pushes are turned away")
    ] = 1_073_741_824

    # -- authentication and TLS
    auth_secret: Annotated[
        Annotated[str, Meta(min_length=32)] | None,
        Meta(description="shared secret of tokens signed with HS256, 32 characters or more"),
    ] = None
    auth_public_key_file: Annotated[
        Path | None, Meta(description="PEM file with the public key of tokens signed with RS256, ES256 or EdDSA")
    ] = None
    auth_jwks_file: Annotated[Path | None, Meta(description="JSON file with a set of public keys (JWKS)")] = None
    auth_jwks_url: Annotated[str | None, Meta(description="http or https address of a set of public keys (JWKS)")] = (
        None
    )
    auth_jwks_interval_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="shortest pause between two requests for keys, whatever tokens name")
    ] = 10
    auth_jwks_refresh_seconds: Annotated[
        float, Meta(ge=0, le=86_400, description="age at which fetched keys are fetched again, so that old ones end")
    ] = 300
    auth_audience: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="audience (`aud`) a token must be for; without it, tokens for none"),
    ] = None
    auth_issuer: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="issuer (`iss`) a token must come from; without it, any"),
    ] = None
    auth_leeway_seconds: Annotated[
        float, Meta(ge=0, le=600, description="by how much the clocks of issuer and server may differ")
    ] = 5
    auth_roles_claim: Annotated[
        str, Meta(min_length=1, description="claim with the roles, a list or words; beside `roles`, `role` counts too")
    ] = "roles"
    tls_cert: Annotated[
        Path | None, Meta(description="PEM file with the server's certificate and what links it to its root")
    ] = None
    tls_key: Annotated[Path | None, Meta(description="PEM file with the certificate's private key, not encrypted")] = (
        None
    )

    # -- the log
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least important events that are logged")
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"], Meta(description="lines for people (`text`) or for programs (`json`)")
    ] = "text"
    access_log: Annotated[bool, Meta(description="log every request")] = False
    slow_call_ms: Annotated[
        int,
        Meta(ge=0, le=3_600_000, description="requests that take longer are logged with what took how long; 0: none"),
    ] = 1_000

    # -- batching
    push_calls_max: Annotated[int, Meta(ge=1, le=64, description="push calls in flight at once")] = 2
    pop_calls_max: Annotated[int, Meta(ge=1, le=64, description="pop calls in flight at once")] = 2
    ack_calls_max: Annotated[int, Meta(ge=1, le=64, description="ack calls in flight at once")] = 2
    push_messages_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="most messages in one push call to the database")
    ] = 5_000
    batch_messages_max: Annotated[int, Meta(ge=1, le=1_000_000, description="most messages one pop may ask for")] = (
        10_000
    )
    pop_batching: Annotated[bool, Meta(description="let pops that arrive together share one call to the database")] = (
        True
    )

    # -- memory
    payload_bytes_max: Annotated[int, Meta(ge=1024, le=268_435_456, description="largest payload of one message")] = (
        8_388_608
    )
    pop_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_073_741_824,
            description="most bytes of messages in one answer of a pop, a read by offset or a list; "
            "one message is answered, however large it is",
        ),
    ] = 8_388_608
    segment_cache_bytes_max: Annotated[
        int, Meta(ge=0, description="memory for segments that were pushed or read recently")
    ] = 67_108_864
    dedup_bytes_max: Annotated[
        int,
        Meta(
            ge=0,
            description="memory to recognise duplicates without asking: 16 bytes for an id of the dedup window, "
            "2 or fewer where there are so many that they go to temporary files",
        ),
    ] = 67_108_864

    # -- encryption
    encryption_keys: Annotated[
        str | None,
        Meta(description="`id:base64,id2:base64`, 32 bytes each: the first one encrypts, all of them decrypt"),
    ] = None

    # -- waiting
    default_subscription_mode: Annotated[
        Literal["all", "new"], Meta(description="where a new group starts that does not say: `all` or `new`")
    ] = "all"
    waiters_max: Annotated[int, Meta(ge=1, description="long polls parked in one process")] = 10_000
    poll_interval_min_ms: Annotated[
        int, Meta(ge=1, le=3_600_000, description="first pause of the fallback poll; it doubles from here")
    ] = 100
    poll_interval_max_ms: Annotated[int, Meta(ge=1, le=3_600_000, description="longest pause of the fallback poll")] = (
        5_000
    )
    notify_interval_ms: Annotated[
        int, Meta(ge=1, le=60_000, description="shortest pause between two notifications to other servers")
    ] = 5
    pending_check: Annotated[bool, Meta(description="ask whether anything is pending before a fallback poll pops")] = (
        True
    )

    # -- upkeep
    upkeep: Annotated[
        bool, Meta(description="take part in retention, ticks, the inbox and statistics of this database")
    ] = True
    retention_interval_seconds: Annotated[
        float, Meta(ge=0.1, le=86_400, description="pause between two rounds of retention")
    ] = 30
    tick_interval_seconds: Annotated[
        float, Meta(ge=0.05, le=3600, description="pause between two ticks while there is activity")
    ] = 1
    idle_partition_seconds: Annotated[
        float, Meta(ge=0, description="an empty partition this long without a push is removed; 0 for never")
    ] = 604_800
    stats_interval_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="pause between two rounds of statistics")
    ] = 60
    upkeep_batch: Annotated[int, Meta(ge=1, le=100_000, description="most rows one upkeep statement touches")] = 1_000

    def __post_init__(self) -> None:
        if self.poll_interval_min_ms > self.poll_interval_max_ms:
            raise ValueError("poll_interval_min_ms is larger than poll_interval_max_ms")
        self.key_ring()
        self.known_hosts()
        self.allowed_origins()
        self._check_auth()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: set both or none")

    def _check_auth(self) -> None:
        given = [name for name in KEY_SOURCES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set: tokens are checked with one of them")
        if not given and (self.auth_audience or self.auth_issuer):
            raise ValueError(f"auth_audience and auth_issuer need one of {', '.join(KEY_SOURCES)}")
        if self.auth_jwks_url is not None:
            parts = urlsplit(self.auth_jwks_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
                raise ValueError("auth_jwks_url is an http or https address without a user")

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={self.shown(name)!r}' for name in self.__struct_fields__)})"

    def shown(self, name: str) -> object:
        """A setting's value as anybody may see it."""
        value = getattr(self, name)
        if name in ("dsn", "session_dsn") and value is not None:
            return masked(value)
        return "***" if name in SECRETS and value is not None else value

    def key_ring(self) -> dict[str, bytes]:
        """The encryption keys by id, the one that encrypts first."""
        pairs = [pair.strip().partition(":") for pair in (self.encryption_keys or "").split(",") if pair.strip()]
        ring = {name: _key(name, encoded) for name, _, encoded in pairs}
        if len(ring) != len(pairs):
            raise ValueError("encryption_keys has two keys of the same id")
        return ring

    @property
    def asks_for_tokens(self) -> bool:
        """Whether the server has keys to check tokens with."""
        return any(getattr(self, name) is not None for name in KEY_SOURCES)

    def known_hosts(self) -> frozenset[str]:
        """The names in `hosts`, in small letters."""
        for name in (names := _listed(self.hosts)):
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(f"hosts has {name!r}, which is not a host name; leave out schemes, ports and paths")
        return frozenset(name.removesuffix(".") for name in names)

    def allowed_origins(self) -> frozenset[str]:
        """The origins in `cors_origins`, as browsers write them."""
        origins = _listed(self.cors_origins)
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"cors_origins has {origin!r}, which is not an origin; "
                    "write scheme://host or scheme://host:port, without a path"
                )
        return frozenset(origin.removesuffix(_DEFAULT_PORTS.get(origin.partition(":")[0], "")) for origin in origins)

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ, **overrides: object) -> Self:
        """Settings from the environment; what is passed by name wins over it."""
        values: dict[str, object] = {**cls.named(environ)}
        values |= {cls._field(PREFIX + name.upper()): value for name, value in overrides.items()}
        try:
            return msgspec.convert(values, cls, strict=False, dec_hook=_decode)
        except msgspec.ValidationError as error:
            raise ConfigurationError(_explain(str(error), values)) from None

    @classmethod
    def named(cls, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What the environment sets, by the name of the setting."""
        ours = {name: text for name, text in environ.items() if name.startswith(PREFIX)}
        return {cls._field(name): text for name, text in ours.items() if not name.startswith(TEST_PREFIX)}

    @classmethod
    def _field(cls, variable: str) -> str:
        known = {PREFIX + name.upper(): name for name in cls.__struct_fields__}
        if variable in known:
            return known[variable]
        nearest = difflib.get_close_matches(variable, known, n=1)
        suggestion = f"; did you mean {nearest[0]}?" if nearest else ": `queen settings` lists all of them"
        raise ConfigurationError(f"{variable} is not a setting of Queen{suggestion}")


def wants_colour(stream: TextIO) -> bool:
    """Whether a person is watching this stream and has not asked for plain text (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def inherited(variable: str) -> str | None:
    """A variable that is not ours but that of a program we start; None when it is not set."""
    return os.environ.get(variable) or None


def hand_on(variable: str, value: str) -> None:
    """Set such a variable for the programs that this process starts."""
    os.environ[variable] = value


def masked(dsn: str) -> str:
    """A DSN that may be shown: without its password."""
    return _PASSWORD.sub(lambda found: f"{found['before'] or found['key']}***", dsn)


def _listed(text: str | None) -> list[str]:
    """The parts of a list with commas, in small letters."""
    return [part.strip().lower() for part in (text or "").split(",") if part.strip()]


def _key(name: str, encoded: str) -> bytes:
    """One key; a mistake in it is reported without showing it."""
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if not name or len(key) != 32:
        raise ValueError("encryption_keys must look like id:base64,id2:base64, with 32 bytes in each key")
    return key


def _decode(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str | os.PathLike):
        return Path(value).expanduser()
    raise NotImplementedError(f"cannot read a {kind}")


def _explain(complaint: str, values: Mapping[str, object]) -> str:
    """What msgspec complained about, in terms of environment variables and with the value it refused."""
    found = re.fullmatch(r"(?P<what>.*?)(, got `str`| '.*')? - at `\$\.(?P<name>\w+)`", complaint)
    if found is None:
        return complaint
    name = found["name"]
    given = "" if name in SECRETS else f" (it is {values[name]!r})"
    return f"{PREFIX}{name.upper()}: {found['what'][0].lower()}{found['what'][1:]}{given}"
