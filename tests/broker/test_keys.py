"""Keys of tokens: from a file or an address, each good for one algorithm."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from queenmq.broker.keys import FETCH_BYTES_MAX, FetchedKeys, configured_keys, parse_jwks
from queenmq.config import Settings
from queenmq.errors import ConfigurationError
from tests.broker import issuer
from tests.broker.issuer import PRIVATE


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_the_kind_of_a_public_key_decides_its_algorithm(algorithm, tmp_path):
    file = tmp_path / "public.pem"
    file.write_bytes(issuer.pem(PRIVATE[algorithm]))
    assert configured_keys(Settings(auth_public_key_file=file)).at_hand().find("any").algorithm == algorithm
    [key] = parse_jwks(issuer.jwks(one=PRIVATE[algorithm]))
    assert (key.name, key.algorithm) == ("one", algorithm)


def test_nobody_is_asked_without_a_key():
    assert configured_keys(Settings()) is None


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"nonsense", "is not a public key in PEM"),
        (issuer.pem(generate_private_key(SECP384R1())), "must be RSA of 2048 bits or more"),
        (issuer.pem(generate_rsa(65537, 1024)), "must be RSA of 2048 bits or more"),
        (
            PRIVATE["RS256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            "is not a public key in PEM",
        ),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_public_key_stops_the_start(contents, complaint, tmp_path):
    file = tmp_path / "public.pem"
    if contents is not None:
        file.write_bytes(contents)
    with pytest.raises(ConfigurationError, match=f"QUEEN_AUTH_PUBLIC_KEY_FILE.*{complaint}"):
        configured_keys(Settings(auth_public_key_file=file))


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"nonsense", "not a set of keys"),
        (b'{"keys": 7}', "not a set of keys"),
        (b"[" * 100_000, "not a set of keys"),
        (b'{"keys": []}', "no public key"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a", "alg": "HS256"}, 7, {}]}', "no public key"),
        (json.dumps({"keys": [issuer.jwk(PRIVATE["RS256"], "a")] * 2}).encode(), "two keys of the same name"),
    ],
)
def test_a_file_that_is_no_set_of_keys_stops_the_start(contents, complaint, tmp_path):
    file = tmp_path / "keys.json"
    file.write_bytes(contents)
    with pytest.raises(ConfigurationError, match=f"QUEEN_AUTH_JWKS_FILE.*{complaint}"):
        configured_keys(Settings(auth_jwks_file=file))


def test_a_missing_set_of_keys_stops_the_start(tmp_path):
    with pytest.raises(ConfigurationError, match="QUEEN_AUTH_JWKS_FILE: cannot read"):
        configured_keys(Settings(auth_jwks_file=tmp_path / "none"))


def test_a_secret_that_is_a_public_key_stops_the_start():
    with pytest.raises(ConfigurationError, match="QUEEN_AUTH_SECRET holds a key"):
        configured_keys(Settings(auth_secret=issuer.pem(PRIVATE["RS256"]).decode()))


def test_keys_of_other_kinds_and_purposes_are_passed_over():
    rsa, ec = PRIVATE["RS256"], PRIVATE["ES256"]
    document = {
        "keys": [
            issuer.jwk(rsa, "good"),
            issuer.jwk(rsa, "for encryption", use="enc"),
            issuer.jwk(rsa, "for another algorithm", alg="PS256"),
            issuer.jwk(ec, "a broken one", x="AAAA"),
            issuer.jwk(ec, 7),
            {"kty": "oct", "k": "c2VjcmV0", "kid": "a secret"},
            {"kty": "from the future", "kid": "unknown"},
        ]
    }
    assert [key.name for key in parse_jwks(json.dumps(document).encode())] == ["good"]


def test_a_token_without_a_key_name_means_the_only_key(tmp_path):
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.jwks(one=PRIVATE["RS256"]))
    keys = configured_keys(Settings(auth_jwks_file=file)).at_hand()
    assert keys.find(None) is keys.find("one") is not None
    assert keys.find("two") is None
    file.write_bytes(issuer.jwks(one=PRIVATE["RS256"], two=PRIVATE["EdDSA"]))
    keys = configured_keys(Settings(auth_jwks_file=file)).at_hand()
    assert keys.find(None) is None
    assert keys.find("two").algorithm == "EdDSA"


async def test_keys_by_address_are_fetched_when_needed_and_not_more_often_than_allowed():
    with issuer.address() as address:
        keys = FetchedKeys(address.url, interval_seconds=3600, refresh_seconds=3600)
        assert keys.at_hand() is None
        assert address.requests == 0
        address.document = issuer.jwks(one=PRIVATE["RS256"])
        assert (await keys.renewed()).find("one") is not None
        address.document = issuer.jwks(two=PRIVATE["RS256"])
        assert (await keys.renewed()).find("two") is None
        assert address.requests == 1


async def test_keys_that_are_old_are_fetched_again_while_requests_go_on():
    with issuer.address() as address:
        address.document = issuer.jwks(withdrawn=PRIVATE["RS256"])
        at_once = Settings(auth_jwks_url=address.url, auth_jwks_interval_seconds=0, auth_jwks_refresh_seconds=0)
        keys = configured_keys(at_once)
        await keys.renewed()
        address.document = issuer.jwks(two=PRIVATE["RS256"])
        assert keys.at_hand().find("withdrawn") is not None
        await keys._fetching
        assert keys.at_hand().find("withdrawn") is None
        await keys._fetching


@pytest.mark.parametrize("document", [None, b"nonsense", b" " * (FETCH_BYTES_MAX + 1)])
async def test_keys_at_hand_stay_when_the_address_has_none(document, caplog):
    with issuer.address() as address:
        address.document = issuer.jwks(one=PRIVATE["RS256"])
        keys = FetchedKeys(address.url, interval_seconds=0, refresh_seconds=3600)
        await keys.renewed()
        address.document = document
        assert (await keys.renewed()).find("one") is not None
        assert address.requests == 2
    assert (await keys.renewed()).find("one") is not None
    assert [record.message for record in caplog.records] == ["the keys of tokens could not be fetched"] * 2


async def test_keys_come_from_their_address_and_not_from_where_it_points():
    with issuer.address() as address:
        address.document = issuer.jwks(one=PRIVATE["RS256"])
        keys = FetchedKeys(f"{address.url}elsewhere", interval_seconds=0, refresh_seconds=3600)
        assert await keys.renewed() is None
        assert address.requests == 1
