"""The keys that tokens are checked with.

What a key is decides which algorithm it is good for, here and once; what a token says about itself decides nothing.
Keys come from the settings or a file, read at the start, or from an address, fetched when a token first needs them.
"""

import asyncio
import json
import logging
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from msgspec import Struct

from queenmq.config import Settings
from queenmq.errors import ConfigurationError

log = logging.getLogger(__name__)

RSA_BITS_MIN = 2048
FETCH_SECONDS_MAX = 5.0
FETCH_BYTES_MAX = 1 << 20


class Key(Struct, frozen=True):
    """A key, the only algorithm it is good for, and its name (`kid`) if it has one."""

    algorithm: str
    material: Any
    name: str | None = None


class KeySet:
    """Keys by name. A token that names no key means the only one; a lone key without a name is meant by every token."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._sole = keys[0] if len(keys) == 1 else None
        self._named = {key.name: key for key in keys if key.name is not None}

    def find(self, name: str | None) -> Key | None:
        """The key that a token means."""
        if self._sole is not None and (name is None or self._sole.name is None):
            return self._sole
        return None if name is None else self._named.get(name)


class Keys(Protocol):
    """Where the keys come from."""

    def at_hand(self) -> KeySet | None:
        """The keys as they are known now; None while there are none."""

    async def renewed(self) -> KeySet | None:
        """The keys after another look at where they come from, if one is possible and due."""


class FixedKeys:
    """Keys that stay as they were at the start."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = KeySet(keys)

    def at_hand(self) -> KeySet:
        """The keys."""
        return self._keys

    async def renewed(self) -> KeySet:
        """The same keys."""
        return self._keys


class FetchedKeys:
    """Keys from an address.

    They are fetched when a token names an unknown one, not more often than every `interval_seconds`, and when they
    are `refresh_seconds` old, while requests go on with those at hand. An address that does not answer takes nothing
    away: the keys at hand stay.
    """

    def __init__(self, url: str, interval_seconds: float, refresh_seconds: float) -> None:
        self._url = url
        self._interval_seconds = interval_seconds
        self._refresh_seconds = refresh_seconds
        self._keys: KeySet | None = None
        self._asked_at = self._fetched_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    def at_hand(self) -> KeySet | None:
        """The keys; begins to fetch them again when they are old."""
        if self._keys is not None and monotonic() - self._fetched_at >= self._refresh_seconds:
            self._begin()
        return self._keys

    async def renewed(self) -> KeySet | None:
        """The keys after a fetch, if one is due; all who wait share it."""
        if (fetching := self._begin()) is not None:
            await asyncio.wait((fetching,), timeout=FETCH_SECONDS_MAX)
        return self._keys

    def _begin(self) -> asyncio.Task[None] | None:
        """The fetch under way, a new one, or none because the last one was a moment ago."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if monotonic() - self._asked_at < self._interval_seconds:
            return None
        self._asked_at = monotonic()
        self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            self._keys = KeySet(parse_jwks(await asyncio.to_thread(_download, self._url)))
        except (OSError, HTTPException, ValueError) as error:
            log.warning("the keys of tokens could not be fetched", extra={"url": self._url, "reason": str(error)})
        else:
            self._fetched_at = monotonic()


def configured_keys(settings: Settings) -> Keys | None:
    """The keys that the settings name, None where they name none."""
    if settings.auth_secret is not None:
        return FixedKeys([_secret(settings.auth_secret)])
    if settings.auth_public_key_file is not None:
        return FixedKeys([_public_key(settings.auth_public_key_file)])
    if settings.auth_jwks_file is not None:
        path = settings.auth_jwks_file
        try:
            return FixedKeys(parse_jwks(_contents("auth_jwks_file", path)))
        except ValueError as error:
            raise ConfigurationError(f"QUEEN_AUTH_JWKS_FILE: {path}: {error}") from None
    if settings.auth_jwks_url is not None:
        return FetchedKeys(
            settings.auth_jwks_url, settings.auth_jwks_interval_seconds, settings.auth_jwks_refresh_seconds
        )
    return None


def parse_jwks(document: bytes) -> list[Key]:
    """The keys of a set that tokens can be checked with; those of other kinds and purposes are passed over."""
    try:
        listed = json.loads(document)["keys"]
        candidates = [each for each in listed if isinstance(each, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is not a set of keys (JWKS)") from None
    keys = [key for each in candidates if (key := _from_jwk(each)) is not None]
    if not keys:
        raise ValueError("it has no public key for RS256, ES256 or EdDSA")
    names = [key.name for key in keys if key.name is not None]
    if len(set(names)) != len(names):
        raise ValueError("it has two keys of the same name (kid)")
    return keys


def _from_jwk(jwk: dict[str, Any]) -> Key | None:
    name = jwk.get("kid")
    if jwk.get("use", "sig") != "sig" or not (name is None or isinstance(name, str)):
        return None
    try:
        parsed = jwt.PyJWK(jwk)
        algorithm = _algorithm(parsed.key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm):
        return None
    if algorithm is None or parsed.algorithm_name != algorithm:
        return None
    return Key(algorithm, parsed.key, name)


def _algorithm(key: object) -> str | None:
    """What a public key is good for; nothing else is one."""
    if isinstance(key, RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return "ES256"
    return "EdDSA" if isinstance(key, Ed25519PublicKey) else None


def _secret(secret: str) -> Key:
    try:
        material = jwt.get_algorithm_by_name("HS256").prepare_key(secret)
    except jwt.InvalidKeyError:
        raise ConfigurationError("QUEEN_AUTH_SECRET holds a key or a certificate, not a secret") from None
    return Key("HS256", material)


def _public_key(path: Path) -> Key:
    try:
        material = load_pem_public_key(_contents("auth_public_key_file", path))
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError(f"QUEEN_AUTH_PUBLIC_KEY_FILE: {path} is not a public key in PEM") from None
    algorithm = _algorithm(material)
    if algorithm is None:
        raise ConfigurationError(
            f"QUEEN_AUTH_PUBLIC_KEY_FILE: the key in {path} must be RSA of {RSA_BITS_MIN} bits or more, "
            "P-256 or Ed25519"
        )
    return Key(algorithm, material)


def _contents(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"QUEEN_{setting.upper()}: cannot read {path}: {error.strerror}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from the address in the settings and from nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


def _download(url: str) -> bytes:
    """What is at an address; its answer is bounded in size and in time."""
    deadline = monotonic() + FETCH_SECONDS_MAX
    document = b""
    with urllib.request.build_opener(_NoRedirect).open(url, timeout=FETCH_SECONDS_MAX) as response:
        while chunk := response.read1(FETCH_BYTES_MAX):
            document += chunk
            if len(document) > FETCH_BYTES_MAX or monotonic() > deadline:
                raise ValueError("the answer is too large or too slow")
    return document
