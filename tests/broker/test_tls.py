"""The server speaks https when it has a certificate, and does not start with a wrong one."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from queenmq.broker.server import check_certificate
from queenmq.config import Settings
from queenmq.errors import ConfigurationError
from tests.broker.issuer import SECRET, token
from tests.broker.shorthand import pop, push
from tests.fixtures.servers import Served


@pytest.fixture
def certificate(tmp_path):
    """Makes a certificate of 127.0.0.1 and its key; gives their paths."""

    def make(name="server", encryption=None):
        private = generate_private_key(SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "queen")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(private, SHA256())
        )
        cert, key = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
        cert.write_bytes(made.public_bytes(Encoding.PEM))
        key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()))
        return cert, key

    return make


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_server_with_a_certificate_speaks_https(serve, certificate, queue, version):
    cert, key = certificate()
    server = await serve(tls_cert=cert, tls_key=key, auth_secret=SECRET)
    assert server.url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=cert)
    trusted.minimum_version = trusted.maximum_version = version
    async with server.client(verify=trusted, headers={"authorization": f"Bearer {token()}"}) as http:
        await push(http, queue, 1)
        assert [message["producerSub"] for message in (await pop(http, queue))["messages"]] == ["ann"]
    async with httpx.AsyncClient(base_url=server.url.replace("https", "http")) as plain:
        with pytest.raises(httpx.RemoteProtocolError):
            await plain.get("/health")
    async with server.client() as stranger:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.get("/health")


@pytest.mark.parametrize("given", ["tls_cert", "tls_key"])
def test_a_certificate_and_its_key_go_together(given):
    with pytest.raises(ConfigurationError, match="set both or none"):
        Settings.load({}, **{given: "/some/where"})


def test_files_that_cannot_be_read_are_named(certificate, tmp_path):
    cert, key = certificate()
    with pytest.raises(ConfigurationError, match=r"QUEEN_TLS_CERT: cannot read .*none: No such file"):
        check_certificate(Settings(tls_cert=tmp_path / "none", tls_key=key))
    with pytest.raises(ConfigurationError, match=r"QUEEN_TLS_KEY: cannot read .*: Is a directory"):
        check_certificate(Settings(tls_cert=cert, tls_key=tmp_path))


def test_files_that_do_not_fit_are_refused(certificate):
    (cert, key), (_, other_key) = certificate(), certificate("other")
    nonsense = key.with_name("nonsense")
    nonsense.write_text("nonsense")
    _, locked = certificate("locked", BestAvailableEncryption(b"password"))
    for wrong in ((cert, other_key), (cert, nonsense), (nonsense, key), (key, cert), (cert, locked)):
        with pytest.raises(ConfigurationError, match="are not a certificate and its private key"):
            check_certificate(Settings(tls_cert=wrong[0], tls_key=wrong[1]))


def test_a_server_with_a_wrong_certificate_does_not_start(certificate, tmp_path):
    (cert, _), (_, other_key) = certificate(), certificate("other")
    with pytest.raises(AssertionError, match=r"QUEEN_TLS_CERT and QUEEN_TLS_KEY: .*key values mismatch"):
        Served(tmp_path / "server", "postgresql://nowhere/queen", {"tls_cert": cert, "tls_key": other_key})
