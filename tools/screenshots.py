"""Takes the pictures of the dashboard for the docs: `make screenshots`.

A server with a private PostgreSQL is started, a small shop does an hour of business on it, and Chromium looks at the
pages in both themes, on a desktop and on a phone. The pictures go to docs/images.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tools.shop import TRACE, Shop

IMAGES = Path(__file__).parents[1] / "docs/images"
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
THEMES = ("light", "dark")
BYTES_MAX = 170_000
PAGES = {  # name: address, and a text that is there when the page is
    "overview": ("", "The last hour"),
    "queues": ("queues", "6 queues"),
    "queue": ("queues/orders", "The last hour"),
    "partitions": ("queues/clicks?tab=partitions", "Each cell is a partition"),
    "partition": ("queues/orders/partitions/ann", "Next offset"),
    "settings": ("queues/orders?tab=settings", "leaseTime"),
    "groups": ("groups", "6 lines"),
    "dead-letters": ("dead-letters", "grouped by error"),
    "ledger": ("ledger", "all balanced"),
    "trace": (f"traces/{TRACE}", "from the first push to the last"),
    "server": ("server", "Oldest transaction"),
}
EVERYWHERE = ("overview", "queues", "dead-letters")  # on a phone and in the dark too; the others once


def main() -> None:
    """Start, do business, look, stop."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with served() as (url, dsn), sync_playwright() as playwright:
        Shop(url, dsn).open()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for theme in THEMES:
            for size in SIZES:
                take(browser, url, theme, size)
        browser.close()


def take(browser: Browser, url: str, theme: str, size: str) -> None:
    """The pictures of one theme and one size."""
    with browser.new_context(viewport=SIZES[size], color_scheme=theme) as context:
        for name, (address, text) in PAGES.items():
            if name not in EVERYWHERE and (theme, size) != ("light", "desktop"):
                continue
            page = context.new_page()
            page.goto(f"{url}/#/{address}")
            page.get_by_text(text).first.wait_for()
            page.wait_for_load_state("networkidle")
            path = IMAGES / f"dashboard-{name}-{theme}-{size}.png"
            page.screenshot(path=path)
            page.close()
            assert path.stat().st_size < BYTES_MAX, path


@contextmanager
def served() -> Iterator[tuple[str, str]]:
    """A server on a database of its own, and the addresses of both."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # PostgreSQL does not run as root, and its account has to get there
        queen = Path(sys.executable).with_name("queen")
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [queen, "serve", "--port", "0", "--data-dir", f"{directory}/data"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        greeting = [process.stdout.readline() for _ in range(3)]
        dsn = re.search(r"database +'?([^'\n]+)", greeting[2])
        assert dsn is not None, greeting
        try:
            yield greeting[0].removeprefix("Queen listens at ").strip(), dsn[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


if __name__ == "__main__":
    main()
