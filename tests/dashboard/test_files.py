"""What the server sends to a browser: small, checked, cached, and nothing from elsewhere."""

import gzip
import hashlib
import re
from pathlib import Path

import httpx
import pytest

from queenmq.broker.dashboard.files import STATIC, assets

FIRST_PAGE_BYTES_MAX = 150_000
FOLDERS = [STATIC / "vendor", Path(__file__).parent / "vendor"]
LIBRARIES = ("preact", "htm", "uplot")


@pytest.fixture(scope="module")
def web(server):
    with httpx.Client(base_url=server.url, headers={"accept-encoding": "gzip"}) as client:
        yield client


@pytest.mark.parametrize("folder", FOLDERS, ids=["dashboard", "tests"])
def test_libraries_are_what_their_authors_published(folder):
    lines = dict(reversed(line.split()) for line in (folder / "CHECKSUMS").read_text().splitlines())
    files = {path.name: path for path in folder.iterdir() if path.name != "CHECKSUMS"}
    assert lines == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_has_its_license_beside_it(library):
    assert "ermission" in (STATIC / f"vendor/{library}.LICENSE").read_text()


def test_the_first_page_is_small_on_the_wire(web):
    names = ["/", *(f"/dashboard/{name}" for name in assets() if name != "index.html")]
    sizes = {name: int(web.get(name).headers["content-length"]) for name in names}
    assert sum(sizes.values()) < FIRST_PAGE_BYTES_MAX, sizes


def test_the_page_may_load_from_its_own_server_only(web):
    answer = web.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
    assert "unsafe" not in policy
    assert re.findall(r"(?:src|href)=\"(?:\w+:)?//", answer.text) == []


@pytest.mark.parametrize("name", ["/", "/dashboard/main.js", "/dashboard/css/base.css", "/dashboard/icon.svg"])
def test_a_file_is_sent_once_and_then_only_when_it_has_changed(web, name):
    first = web.get(name)
    assert (first.status_code, first.headers["x-content-type-options"]) == (200, "nosniff")
    assert first.headers["content-encoding"] == "gzip"
    again = web.get(name, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "content-length" not in again.headers
    assert web.get(name, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("br;q=1, gzip;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.0, br", None),
    ],
)
def test_a_file_is_compressed_if_the_client_can_read_that(server, accepted, encoding):
    with httpx.stream("GET", f"{server.url}/dashboard/main.js", headers={"accept-encoding": accepted}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == encoding
    assert (gzip.decompress(body) if encoding else body) == (STATIC / "main.js").read_bytes()


@pytest.mark.parametrize("name", ["no.js", "index.html", "vendor/CHECKSUMS", "../files.py", "..%2Ffiles.py", "%00"])
def test_nothing_else_is_sent(web, name):
    answer = web.get(f"/dashboard/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_SUCH_ROUTE")


def test_every_module_that_is_imported_is_there():
    for path in STATIC.rglob("*.js"):
        for target in re.findall(r'^import .*?"(\.[^"]+)"|^\} from "(\.[^"]+)"', path.read_text(), re.MULTILINE):
            assert (path.parent / (target[0] or target[1])).resolve().is_file(), (path.name, target)


def test_the_greeting_names_the_dashboard(server):
    greeting = [server.process.stdout.readline() for _ in range(3)]  # after the first line, which the fixture has read
    assert any(line.split() == ["dashboard", f"{server.url}/"] for line in greeting), greeting
    assert httpx.get(f"{server.url}/").text.startswith("<!doctype html>")
