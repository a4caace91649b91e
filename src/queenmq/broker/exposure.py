"""Who can reach this server, and whether it asks them for tokens."""

import ipaddress

from queenmq.api.diagnosis import Check
from queenmq.config import Settings
from queenmq.errors import ConfigurationError

HINT = (
    "Set one of QUEEN_AUTH_SECRET, QUEEN_AUTH_PUBLIC_KEY_FILE, QUEEN_AUTH_JWKS_FILE and QUEEN_AUTH_JWKS_URL, "
    "or listen on 127.0.0.1."
)


def check_protection(settings: Settings) -> None:
    """Refuse to serve other machines without tokens, unless the settings allow it."""
    if is_exposed(settings) and not settings.allow_unprotected:
        raise ConfigurationError(
            f"without authentication the server listens on loopback only, not on {settings.host}: set one of "
            "QUEEN_AUTH_SECRET, QUEEN_AUTH_PUBLIC_KEY_FILE, QUEEN_AUTH_JWKS_FILE and QUEEN_AUTH_JWKS_URL, "
            "or QUEEN_ALLOW_UNPROTECTED=true if everybody may do everything"
        )


def examine_access(settings: Settings) -> Check:
    """What `queen doctor` says about it."""
    if settings.asks_for_tokens:
        return Check(name="access", severity="ok", detail="every request needs a token")
    if not is_exposed(settings):
        return Check(name="access", severity="ok", detail=f"no tokens, but only this machine can reach {settings.host}")
    return Check(name="access", severity="warning", detail=exposure(settings), hint=HINT)


def exposure(settings: Settings) -> str:
    """The sentence for a server that anybody can use."""
    return f"no tokens are asked for on {settings.host}: every machine that can reach this port may do everything"


def is_exposed(settings: Settings) -> bool:
    """Whether other machines can use the server without a token."""
    return not settings.asks_for_tokens and not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
