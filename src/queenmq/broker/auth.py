"""Who calls, and whether they may.

A caller shows a token (JWT) that somebody else has signed; `keys` has what its signature is checked with. The token
says who it is for (`sub`) and which roles it has; each route says in the table in `app` what it needs.
"""

from collections import OrderedDict
from time import time
from typing import Any, get_args

import jwt
from msgspec import Struct

from queenmq.api.call import Need, Role
from queenmq.broker.http import Request
from queenmq.broker.keys import Key, Keys, KeySet, configured_keys
from queenmq.config import Settings
from queenmq.errors import Forbidden, InvalidToken, Unauthorized, Unavailable

TOKEN_CHARACTERS_MAX = 8192
SUBJECT_CHARACTERS_MAX = 255
TOKENS_MAX = 1000  # remembered, so that a signature is checked once and not with each request

ROLES: frozenset[Role] = frozenset(get_args(Role))

# Which roles are enough for what a route needs: one of them will do. The original system has the roles `read-only`,
# `read-write` and `admin`, and its clients configure the queues they use with `read-write`.
ENOUGH: dict[Need, frozenset[Role]] = {
    "read-only": ROLES,
    "producer": frozenset({"producer", "read-write", "admin"}),
    "consumer": frozenset({"consumer", "read-write", "admin"}),
    "producer or consumer": frozenset({"producer", "consumer", "read-write", "admin"}),
    "read-write": frozenset({"read-write", "admin"}),
    "admin": frozenset({"admin"}),
}

# Where the claim of the roles has its default name, this one is read too: the original's tokens have it.
ROLES_CLAIM = "roles"
ROLE_CLAIM = "role"

REASONS: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for another audience",
    jwt.InvalidIssuerError: "the token comes from another issuer",
    jwt.InvalidSignatureError: "the token was not signed with the key that this server knows",
    jwt.InvalidAlgorithmError: "the token was not signed with the algorithm that this server's key is for",
}


class Caller(Struct, frozen=True):
    """Whom a token is for, and what it allows."""

    subject: str
    roles: frozenset[Role]


class Accepted(Struct, frozen=True):
    """A token that was checked: good until it expires, as long as the keys stay the same."""

    caller: Caller
    keys: KeySet
    expires: int


class Authenticator:
    """Finds out who calls."""

    def __init__(self, settings: Settings, keys: Keys) -> None:
        self._settings = settings
        self._keys = keys
        self._accepted: OrderedDict[str, Accepted] = OrderedDict()

    async def admit(self, request: Request, need: Need) -> None:
        """Let a request pass that carries a token with a role it needs; from here on it is known who calls."""
        caller = await self.identify(_token(request))
        request.producer, request.roles = caller.subject, caller.roles
        require(request, need)

    async def identify(self, token: str) -> Caller:
        """Whom a token is for; refuses one that is not valid here and now."""
        keys = self._keys.at_hand()
        accepted = self._accepted.get(token)
        if accepted is not None and accepted.keys is keys and time() < accepted.expires:
            return accepted.caller
        name = _key_name(token)
        key = None if keys is None else keys.find(name)
        if key is None:
            keys = await self._keys.renewed()
            if keys is None:
                raise Unavailable("the keys that tokens are checked with could not be fetched")
            if (key := keys.find(name)) is None:
                raise InvalidToken("the token names no key that this server knows")
        claims = self._claims(token, key)
        caller = Caller(_subject(claims), _roles(claims, self._settings.auth_roles_claim))
        assert keys is not None
        self._remember(token, Accepted(caller, keys, int(claims["exp"])))
        return caller

    def _claims(self, token: str, key: Key) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                key.material,
                algorithms=[key.algorithm],
                audience=self._settings.auth_audience,
                issuer=self._settings.auth_issuer,
                leeway=self._settings.auth_leeway_seconds,
                options={"require": ["exp", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidToken(_reason(error)) from None

    def _remember(self, token: str, accepted: Accepted) -> None:
        self._accepted[token] = accepted
        if len(self._accepted) > TOKENS_MAX:
            self._accepted.popitem(last=False)


def configured_authenticator(settings: Settings) -> Authenticator | None:
    """What the settings ask for; None where nobody has to say who they are."""
    keys = configured_keys(settings)
    return None if keys is None else Authenticator(settings, keys)


def require(request: Request, need: Need) -> None:
    """Refuse a request whose roles are not enough; where nobody is asked for a token, all are."""
    if request.roles is not None and not request.roles & ENOUGH[need]:
        has = f"has {', '.join(sorted(request.roles))}" if request.roles else "has no role"
        raise Forbidden(f"this needs the role {need}; the token {has}")


def _token(request: Request) -> str:
    header = request.headers.get(b"authorization")
    if header is None:
        raise Unauthorized("the request carries no token")
    scheme, _, token = header.decode("latin-1").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("the Authorization header is not of the form: Bearer <token>")
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise InvalidToken(f"the token is longer than {TOKEN_CHARACTERS_MAX} characters")
    return token


def _key_name(token: str) -> str | None:
    """Which key a token says it was signed with."""
    try:
        name: str | None = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise InvalidToken("the token is not a JWT") from None
    return name


def _subject(claims: dict[str, Any]) -> str:
    subject: str = claims["sub"]
    if not 0 < len(subject) <= SUBJECT_CHARACTERS_MAX or not subject.isprintable():
        raise InvalidToken(f"the token's sub is not a name of 1 to {SUBJECT_CHARACTERS_MAX} printable characters")
    return subject


def _roles(claims: dict[str, Any], claim: str) -> frozenset[Role]:
    """The roles of a token that mean something here; others are for other systems."""
    names = (ROLES_CLAIM, ROLE_CLAIM) if claim == ROLES_CLAIM else (claim,)
    words = {word for name in names for word in _words(claims.get(name), name)}
    return frozenset(role for role in ROLES if role in words)


def _words(value: object, claim: str) -> list[str]:
    """The words of a claim: a list, or words in a string; none if the token does not have it."""
    words = [] if value is None else value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidToken(f"the token's {claim} is neither a list of roles nor words in a string")
    return words


def _reason(error: Exception) -> str:
    """Why a token is refused, in our words: nothing of the token gets into answers and logs."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"the token has no {error.claim}"
    return next((words for kind, words in REASONS.items() if isinstance(error, kind)), "the token cannot be read")
