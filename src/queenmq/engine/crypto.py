"""Payloads that only the holders of a key can read: AES-256-GCM, one message at a time.

An encrypted payload is still JSON, a string `keyid:base64(nonce + ciphertext)`, so that it can be stored,
listed, dead-lettered and redriven by those who cannot read it. The key id says which key decrypts it: a new key
goes to the front of the ring and encrypts from then on; the old ones stay as long as messages need them.
"""

import base64
import os
from collections.abc import Mapping

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queenmq.errors import EncryptionRequired

NONCE_BYTES = 12


class Cipher:
    """A ring of keys; the first encrypts, all decrypt."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self._first = next(iter(self._keys.items()), None)

    @property
    def can_encrypt(self) -> bool:
        """Whether there is a key at all."""
        return self._first is not None

    def encrypt(self, payload: bytes) -> bytes:
        """JSON text to a JSON string that hides it."""
        if self._first is None:
            raise EncryptionRequired("the queue is encrypted and this process has no key")
        name, key = self._first
        nonce = os.urandom(NONCE_BYTES)
        hidden = base64.b64encode(nonce + key.encrypt(nonce, payload, name.encode()))
        return b'"%b:%b"' % (name.encode(), hidden)

    def decrypt(self, payload: bytes) -> bytes:
        """The JSON text again."""
        try:
            name, _, hidden = msgspec.json.decode(payload, type=str).partition(":")
            sealed = base64.b64decode(hidden)
        except ValueError:
            raise EncryptionRequired("the message is called encrypted, but not by Queen") from None
        key = self._keys.get(name)
        if key is None:
            raise EncryptionRequired(f'the message was encrypted with the key "{name}", which this process lacks')
        try:
            return key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):  # a ValueError: too short to be anything
            raise EncryptionRequired(f'the key "{name}" of this process is not the one that encrypted') from None
