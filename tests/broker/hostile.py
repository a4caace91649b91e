"""Requests that nobody should send, made at random: valid ones, and what becomes of them when parts are changed.

hostile = Hostile(seed); hostile.request()      the bytes of one request, or of something like it

The same seed makes the same requests.
"""

import json
import random
from urllib.parse import quote

from queenmq.broker.app import ROUTES

REQUESTS = 20_000  # in one run of all tests,
FROM_PAGES = 1_000  # and so many by a browser, where there is one

NAMES = ["orders", "a/b", "ü", "%", " ", "\0", "x" * 300, "..", "'; drop table queen.queues; --", "😀", "\ud800", ""]
NUMBERS = [0, 1, -1, 2**31, 2**63, 2**64, 10**40, 1.5, 1e308]
TEXTS = [b"1" * 5000, b"1e999", b"NaN", b"[" * 3000, b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"{", b"", b"\xef\xbb\xbf1"]
HEADERS = [
    (b"host", b"rebind.example"), (b"host", b"localhost"), (b"host", b""), (b"host", b"\xff"), (b"host", b"[::1"),
    (b"origin", b"null"), (b"origin", b"https://elsewhere.example"), (b"sec-fetch-site", b"cross-site"),
    (b"expect", b"100-continue"), (b"expect", b"something"), (b"connection", b"close"), (b"connection", b"upgrade"),
    (b"upgrade", b"websocket"), (b"upgrade", b"h2c"), (b"content-length", b"5"), (b"content-length", b"-5"),
    (b"content-length", b"99999999999999999999"), (b"content-length", b"1,2"), (b"content-length", b"+3"),
    (b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"gzip, chunked"), (b"transfer-encoding", b"identity"),
    (b"content-encoding", b"gzip"), (b"content-type", b"text/plain"), (b"content-type", b"multipart/form-data"),
    (b"authorization", b"Bearer x.y.z"), (b"authorization", b"Basic eDp5"), (b"cookie", b"a=" + b"b" * 5000),
    (b"x" * 3000, b"y"), (b"x", b"y" * 70_000), (b"x y", b"z"), (b"", b"z"), (b"x", b"\x00"), (b"x", b"\r\n folded"),
    (b"range", b"bytes=0-"), (b"if-none-match", b"*"), (b"x-http-method-override", b"DELETE"), (b"te", b"trailers"),
]  # fmt: skip
TARGETS = [
    b"*", b"/", b"//", b"/..", b"/%00", b"/%", b"/%zz", b"/\xff", b"/?", b"?", b"#", b"http://", b"http://x", b"x:y",
    b"https://localhost:1/health", b"http://rebind.example/health", b"//rebind.example/health", b"/" + b"a" * 70_000,
    b"/api/v1/../../health", b"/api/v1/pop/queue/", b"/api/v1/pop/queue/%2F%2F", b"/docs/", b"/openapi.json?x=%FF",
]  # fmt: skip
METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"PRI", b"get", b"G\0T", b""]
VERSIONS = [b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.", b"ICAP/1.0", b""]
ENDS = [b"\n", b"\r", b"\r\n\r\n", b"", b"\r\r\n"]
BODIES = {
    "/api/v1/push": {"items": [{"queue": "orders", "payload": 1, "transactionId": "t"}]},
    "/api/v1/push/queue/{queue}": [1, "two", None],
    "/api/v1/ack": {"transactionId": "t", "partitionId": "00000000-0000-0000-0000-000000000001", "status": "completed"},
    "/api/v1/fetch": {"entries": [{"queue": "orders", "partition": "Default", "offset": 0}]},
    "/api/v1/configure": {"queue": "orders", "options": {"leaseTime": 60}},
    "/api/v1/transaction": {"operations": [{"type": "push", "items": [{"queue": "orders", "payload": 1}]}]},
}
HARMLESS = [route for route in ROUTES if "maintenance" not in route.pattern and "verify" not in route.pattern]


class Hostile:
    """Makes requests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> bytes:
        """One request: some are valid, most have one to three things wrong."""
        method, target, body = self._call()
        headers = [(b"host", b"localhost")]
        if body:
            headers.append((b"content-length", b"%d" % len(body)))
        version, ends = b"HTTP/1.1", [b"\r\n"]
        for _ in range(self._random.choice([0, 1, 1, 1, 2, 3])):
            match self._random.randrange(8):
                case 0:
                    method = self._random.choice(METHODS)
                case 1:
                    target = self._random.choice(TARGETS)
                case 2:
                    version = self._random.choice(VERSIONS)
                case 3 | 4 | 5:
                    headers.insert(self._random.randrange(len(headers) + 1), self._random.choice(HEADERS))
                case 6:
                    headers = headers[: self._random.randrange(len(headers) + 1)]
                case 7:
                    ends.append(self._random.choice(ENDS))
        lines = [method + b" " + target + b" " + version, *(name + b": " + value for name, value in headers)]
        text = b"".join(line + self._random.choice(ends) for line in lines) + b"\r\n" + body
        return self._damaged(text) if self._random.random() < 0.3 else text

    def _call(self) -> tuple[bytes, bytes, bytes]:
        """A method, an address and a body that could belong together."""
        route = self._random.choice(HARMLESS)
        path = "/".join(quote(self._name(), safe="") if part[:1] == "{" else part for part in route.pattern.split("/"))
        query = [f"{name}={quote(self._name(), safe='')}" for name in route.query if self._random.random() < 0.3]
        target = "?".join((path, "&".join(query))) if query else path
        return route.method.encode(), target.encode(), self._body(route) if route.method == "POST" else b""

    def _body(self, route) -> bytes:
        value = BODIES.get(route.pattern, {})
        if self._random.random() < 0.5:
            value = self._changed(value)
        text = json.dumps(value).encode()
        if self._random.random() < 0.3:
            place = self._random.randrange(len(text) + 1)
            text = text[:place] + self._random.choice(TEXTS) + text[place + self._random.randrange(3) :]
        return text

    def _changed(self, value):
        """The same JSON with one value replaced."""
        if value and self._random.random() < 0.7:
            if isinstance(value, dict):
                name = self._random.choice(list(value))
                return value | {name: self._changed(value[name])}
            if isinstance(value, list):
                place = self._random.randrange(len(value))
                return [*value[:place], self._changed(value[place]), *value[place + 1 :]]
        return self._random.choice([*NUMBERS, True, None, [], {}, [[]], {"": 0}, self._name()])

    def _name(self) -> str:
        return self._random.choice(NAMES).encode(errors="replace").decode()

    def _damaged(self, text: bytes) -> bytes:
        """The same bytes with some changed, missing or doubled."""
        for _ in range(self._random.randrange(1, 4)):
            start = self._random.randrange(len(text) + 1)
            end = min(len(text), start + self._random.choice([0, 1, 1, 2, 10]))
            inserted = self._random.choice([b"", self._random.randbytes(1), text[start:end] * 2, b"\r\n", b"\n"])
            text = text[:start] + inserted + text[end:]
        return text
