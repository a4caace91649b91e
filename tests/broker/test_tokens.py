"""Which tokens are accepted: by signature, by claims, by the name of their key."""

import hashlib
import hmac
import json
from time import time

import jwt
import pytest

from queenmq.broker.auth import TOKENS_MAX, configured_authenticator
from queenmq.config import Settings
from queenmq.errors import InvalidToken, Unavailable
from tests.broker import issuer
from tests.broker.issuer import PRIVATE, SECRET, handmade, token
from tests.waits import until


@pytest.fixture
def known(tmp_path):
    """An authenticator that knows one key; by name, the others of its settings."""

    def build(algorithm="HS256", **settings):
        if algorithm == "HS256":
            return configured_authenticator(Settings(auth_secret=SECRET, **settings))
        file = tmp_path / "public.pem"
        file.write_bytes(issuer.pem(PRIVATE[algorithm]))
        return configured_authenticator(Settings(auth_public_key_file=file, **settings))

    return build


# -- signatures


@pytest.mark.parametrize("algorithm", ["HS256", *PRIVATE])
async def test_a_token_of_each_algorithm_is_accepted_by_its_key(known, algorithm):
    caller = await known(algorithm).identify(token(PRIVATE.get(algorithm, SECRET), algorithm))
    assert caller.subject == "ann"
    assert caller.roles == {"producer", "consumer"}


@pytest.mark.parametrize("expected", ["HS256", *PRIVATE])
async def test_a_key_accepts_its_own_algorithm_only(known, expected):
    signers = {"HS256": SECRET, "HS512": SECRET * 2, "PS256": PRIVATE["RS256"], "RS512": PRIVATE["RS256"]} | PRIVATE
    del signers[expected]
    for algorithm, key in signers.items():
        with pytest.raises(InvalidToken, match="algorithm"):
            await known(expected).identify(token(key, algorithm))


@pytest.mark.parametrize("expected", ["HS256", *PRIVATE])
@pytest.mark.parametrize("none", ["none", "None", "", None, 0, ["HS256"]])
async def test_a_token_without_a_signature_is_refused(known, expected, none):
    with pytest.raises(InvalidToken):
        await known(expected).identify(handmade({"typ": "JWT", "alg": none}, issuer.claims()))


@pytest.mark.parametrize("algorithm", PRIVATE)
async def test_a_public_key_is_not_a_secret(known, algorithm):
    """Whoever knows the public key, and everybody may, could otherwise sign with it."""
    header, payload = {"typ": "JWT", "alg": "HS256"}, issuer.claims(roles=["admin"])
    signed = handmade(header, payload).rpartition(".")[0]
    for secret in (issuer.pem(PRIVATE[algorithm]), issuer.pem(PRIVATE[algorithm]).strip()):
        forged = handmade(header, payload, hmac.new(secret, signed.encode(), hashlib.sha256).digest())
        with pytest.raises(InvalidToken, match="algorithm"):
            await known(algorithm).identify(forged)


@pytest.mark.parametrize("algorithm", ["HS256", *PRIVATE])
async def test_a_token_of_somebody_elses_key_is_refused(known, algorithm):
    strange = {
        "HS256": issuer.OTHER_SECRET,
        "RS256": issuer.generate_rsa(65537, 2048),
        "ES256": issuer.generate_private_key(issuer.SECP256R1()),
        "EdDSA": issuer.Ed25519PrivateKey.generate(),
    }
    with pytest.raises(InvalidToken, match="not signed with the key"):
        await known(algorithm).identify(token(strange[algorithm], algorithm))


async def test_a_token_that_was_changed_is_refused(known):
    head, _, signature = token().split(".")
    changed = handmade(b"", issuer.claims(roles=["admin"])).split(".")[1]
    with pytest.raises(InvalidToken, match="not signed with the key"):
        await known().identify(f"{head}.{changed}.{signature}")


@pytest.mark.parametrize(
    "garbage",
    [
        "garbage",
        "..",
        "a.b.c",
        "ü.ü.ü",
        token() + "!",
        token()[:-5],
        handmade([], {}),
        handmade({"alg": "HS256", "kid": 7}, {}),
        handmade({"alg": "HS256", "crit": ["unknown"]}, {}),
        handmade(b"[" * 5000, {}),
        handmade(b"\xff\xfe", b"\x00"),
    ],
)
async def test_garbage_is_refused(known, garbage):
    with pytest.raises(InvalidToken):
        await known().identify(garbage)


# -- claims


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": int(time()) - 60}, "has expired"),
        ({"exp": None}, "has no exp"),
        ({"exp": "soon"}, "cannot be read"),
        ({"exp": float("inf")}, "cannot be read"),
        ({"nbf": int(time()) + 86_400}, "is not valid yet"),
        ({"iat": int(time()) + 86_400}, "is not valid yet"),
        ({"sub": None}, "has no sub"),
        ({"sub": ""}, "sub is not a name"),
        ({"sub": "a\0b"}, "sub is not a name"),
        ({"sub": "\ud800"}, "sub is not a name"),
        ({"sub": "x" * 256}, "sub is not a name"),
        ({"aud": "somebody else"}, "for another audience"),
        ({"roles": 7}, "roles is neither"),
        ({"roles": [7]}, "roles is neither"),
        ({"roles": {"admin": True}}, "roles is neither"),
    ],
)
async def test_a_token_whose_claims_do_not_hold_is_refused(known, changes, reason):
    with pytest.raises(InvalidToken, match=reason):
        await known().identify(token(**changes))


async def test_a_sub_that_is_no_text_is_refused(known):
    with pytest.raises(InvalidToken):
        await known().identify(jwt.PyJWS().encode(json.dumps(issuer.claims(sub=7)).encode(), SECRET, "HS256"))


async def test_clocks_may_differ_by_the_leeway(known):
    late, early = token(exp=int(time()) - 30), token(nbf=int(time()) + 30)
    for each in (late, early):
        with pytest.raises(InvalidToken):
            await known(auth_leeway_seconds=0).identify(each)
        assert (await known(auth_leeway_seconds=60).identify(each)).subject == "ann"


async def test_a_token_that_was_accepted_ends_when_it_expires(known):
    authenticator, expires = known(auth_leeway_seconds=0), int(time()) + 2
    brief = token(exp=expires)
    assert (await authenticator.identify(brief)).subject == "ann"
    await until("the token has expired", lambda: time() >= expires)
    with pytest.raises(InvalidToken, match="has expired"):
        await authenticator.identify(brief)


async def test_only_so_many_tokens_are_remembered(known):
    authenticator = known()
    for number in range(TOKENS_MAX + 2):
        assert (await authenticator.identify(token(sub=f"caller {number}"))).subject == f"caller {number}"
    assert len(authenticator._accepted) == TOKENS_MAX


@pytest.mark.parametrize(
    ("claim", "setting", "reason"),
    [("aud", "auth_audience", "for another audience"), ("iss", "auth_issuer", "from another issuer")],
)
async def test_audience_and_issuer_must_be_the_expected_ones(known, claim, setting, reason):
    authenticator = known(**{setting: "expected"})
    assert (await authenticator.identify(token(**{claim: "expected"}))).subject == "ann"
    with pytest.raises(InvalidToken, match=reason):
        await authenticator.identify(token(**{claim: "other"}))
    with pytest.raises(InvalidToken, match=f"has no {claim}"):
        await authenticator.identify(token())


async def test_one_of_several_audiences_is_enough(known):
    assert (await known(auth_audience="queen").identify(token(aud=["other", "queen"]))).subject == "ann"


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        (["admin"], {"admin"}),
        ("producer read-only", {"producer", "read-only"}),
        ("read-write", {"read-write"}),
        ("admins", set()),
        (["consumer", "somebody else's"], {"consumer"}),
        (None, set()),
    ],
)
async def test_roles_are_a_list_or_words_under_the_name_that_is_set(known, value, roles):
    authenticator = known(auth_roles_claim="https://queen/may")
    found = await authenticator.identify(token(roles=["admin"], **{"https://queen/may": value}))
    assert found.roles == roles


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"roles": None, "role": "admin"}, {"admin"}),
        ({"roles": None, "role": "read-write"}, {"read-write"}),
        ({"roles": ["producer"], "role": "read-only"}, {"producer", "read-only"}),
        ({"roles": [], "role": "reader"}, set()),
        ({"roles": None, "role": None}, set()),
    ],
)
async def test_one_role_in_the_claim_role_counts_beside_the_list_in_roles(known, claims, roles):
    assert (await known().identify(token(**claims))).roles == roles


async def test_the_claim_role_means_nothing_when_another_claim_has_the_roles(known):
    authenticator = known(auth_roles_claim="may")
    assert (await authenticator.identify(token(role="admin", may=["consumer"]))).roles == {"consumer"}


async def test_a_role_that_is_no_text_is_refused(known):
    with pytest.raises(InvalidToken, match="the token's role is neither a list of roles nor words"):
        await known().identify(token(role=7))


# -- keys by name


async def test_a_key_that_was_rotated_is_found_and_one_that_was_withdrawn_ends():
    old, new = PRIVATE["RS256"], PRIVATE["EdDSA"]
    with issuer.address() as address:
        address.document = issuer.jwks(old=old)
        settings = Settings(auth_jwks_url=address.url, auth_jwks_interval_seconds=0)
        authenticator = configured_authenticator(settings)
        before, after = token(old, "RS256", "old"), token(new, "EdDSA", "new")
        assert (await authenticator.identify(before)).subject == "ann"
        address.document = issuer.jwks(old=old, new=new)
        assert (await authenticator.identify(after)).subject == "ann"
        assert (await authenticator.identify(before)).subject == "ann"
        assert address.requests == 2
        address.document = issuer.jwks(new=new)
        with pytest.raises(InvalidToken, match="names no key"):
            await authenticator.identify(token(new, "EdDSA", "unknown"))
        with pytest.raises(InvalidToken, match="names no key"):
            await authenticator.identify(before)  # although it was accepted before
        with pytest.raises(InvalidToken, match="algorithm"):
            await authenticator.identify(token(old, "RS256", "new"))


async def test_unknown_names_do_not_make_the_server_ask_again_and_again():
    with issuer.address() as address:
        address.document = issuer.jwks(one=PRIVATE["RS256"])
        authenticator = configured_authenticator(Settings(auth_jwks_url=address.url))
        for number in range(10):
            with pytest.raises(InvalidToken, match="names no key"):
                await authenticator.identify(token(PRIVATE["RS256"], "RS256", f"unknown {number}"))
        assert address.requests == 1


async def test_without_any_key_yet_a_caller_is_told_to_come_back():
    with issuer.address() as address:
        authenticator = configured_authenticator(Settings(auth_jwks_url=address.url, auth_jwks_interval_seconds=0))
        good = token(PRIVATE["ES256"], "ES256", "one")
        with pytest.raises(Unavailable, match="could not be fetched"):
            await authenticator.identify(good)
        address.document = issuer.jwks(one=PRIVATE["ES256"])
        assert (await authenticator.identify(good)).subject == "ann"
    assert (await authenticator.identify(good)).subject == "ann"  # the address is away, the key is not
