"""The dashboard in a real browser, on a server with real traffic.

def test_it(shop, page): ...
    page.goto(f"{shop.url}/#/queues")       `page` fails the test for each error in the console, and for each request
                                            to another host
    shop.get("/resources/queues")           what the API says
"""

import re
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from tests.waits import until_now
from tools.shop import Shop

MINUTES = 4  # of the shop's business: enough for charts
PATIENCE_MS = 60_000


class Api:
    """What the dashboard must agree with."""

    def __init__(self, url, token=None):
        self.url = url
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60)

    def close(self):
        self._client.close()

    def get(self, path, **query):
        answer = self._client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path, body):
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def push(self, queue, *payloads, **fields):
        return self.post("/push", {"items": [{"queue": queue, "payload": each, **fields} for each in payloads]})

    def pop(self, queue, **query):
        return self.get(f"/pop/queue/{queue}", empty=200, **query)["messages"]

    def bury(self, queue, *payloads, error, group="workers"):
        """Dead letters with this error, one for each payload."""
        self.post("/configure", {"queue": queue, "options": {"retryLimit": 0}})
        self.push(queue, *payloads)
        for _ in payloads:
            [message] = self.pop(queue, consumerGroup=group)
            names = ("transactionId", "partitionId", "leaseId")
            ack = {name: message[name] for name in names} | {"status": "failed", "error": error}
            self.post("/ack", ack | {"consumerGroup": group})

    def lag(self, queue, group):
        [line] = [each for each in self.get("/consumer-groups") if (each["queueName"], each["name"]) == (queue, group)]
        return line["totalLag"]


@pytest.fixture(scope="module")
def api(server):
    with closing(Api(server.url)) as api:
        yield api


@pytest.fixture(scope="module")
def shop(server, module_database):
    """The server, with the traffic of a few minutes."""
    Shop(server.url, module_database).open(MINUTES)
    with closing(Api(server.url)) as api:
        yield api


@pytest.fixture
def open_page(browser, server):
    """`open_page(color_scheme="dark")`: a tab of its own; what goes wrong in it fails the test."""
    contexts, complaints = [], []
    host = urlsplit(server.url).netloc

    def opened(*, tolerated="(?!)", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()

        def complain(what):
            if not re.search(tolerated, what):
                complaints.append(what)

        page.on("console", lambda message: message.type in ("error", "warning") and complain(message.text))
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("request", lambda request: urlsplit(request.url).netloc == host or complain(f"asked {request.url}"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_page):
    return open_page()


def shown(page, text):
    """Wait until a text is on the page."""
    page.get_by_text(text).first.wait_for(timeout=PATIENCE_MS)


def cells(page, row):
    """The cells of the row that begins with this text, by their column."""
    line = page.locator("tbody tr").filter(has=page.locator("th", has_text=re.compile(rf"^{re.escape(row)}"))).first
    line.wait_for()
    found = line.locator("th, td").evaluate_all("all => all.map(each => [each.dataset.label, each.innerText.trim()])")
    return dict(found)


def becomes(page, row, column, text):
    """Wait until a cell has a text."""
    until_now(f"{row}: {column} is {text}", lambda: cells(page, row)[column] == text)
