"""Who signs tokens: keys of every kind, tokens, and an address where the public keys are."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRET = "a secret of at least thirty-two characters"
OTHER_SECRET = "another secret of at least thirty-two characters"
PRIVATE = {
    "RS256": generate_rsa(65537, 2048),
    "ES256": generate_private_key(SECP256R1()),
    "EdDSA": Ed25519PrivateKey.generate(),
}


def claims(**changes):
    """What a good token says; a claim that is changed to None is left out."""
    said = {"sub": "ann", "exp": int(time()) + 600, "roles": ["producer", "consumer"]} | changes
    return {name: value for name, value in said.items() if value is not None}


def token(key=SECRET, algorithm="HS256", name=None, **changes):
    return jwt.encode(claims(**changes), key, algorithm, headers={} if name is None else {"kid": name})


def handmade(header, payload, signature=b""):
    """A token no library would make."""
    return ".".join(
        base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).rstrip(b"=").decode()
        for part in (header, payload, signature)
    )


def pem(private):
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(private, name=None, **fields):
    algorithm = next(jwt.get_algorithm_by_name(each) for each, key in PRIVATE.items() if isinstance(private, type(key)))
    return algorithm.to_jwk(private.public_key(), as_dict=True) | ({} if name is None else {"kid": name}) | fields


def jwks(**keys):
    return json.dumps({"keys": [jwk(private, name) for name, private in keys.items()]}).encode()


class Address:
    """Serves a document and counts how often; None for an address that only answers 500."""

    def __init__(self):
        self.document = None
        self.requests = 0
        self.url = ""


@contextmanager
def address():
    """An address of keys, on a real socket."""
    shown = Address()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            shown.requests += 1
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/")
                self.end_headers()
                return
            self.send_response(500 if shown.document is None else 200)
            self.end_headers()
            self.wfile.write(shown.document or b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        shown.url = f"http://127.0.0.1:{server.server_port}/"
        yield shown
        server.shutdown()
        thread.join()
