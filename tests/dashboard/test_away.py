"""A server that goes away and comes back, a tab that nobody looks at, and a thousand queues."""

import pytest

from tests.dashboard.conftest import Api, becomes, shown
from tests.fixtures.servers import Served
from tests.waits import until_now

NETWORK = "ERR_|Failed to load"
QUEUES = 1_000
HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.fixture(scope="module")
def settings():
    return {"access_log": True}


def requests(server):
    """How many requests of the API a server has answered."""
    return server.log.count('path="/api/v1/')


def test_a_server_that_comes_back_is_found_again(module_database, tmp_path, open_page):
    first = Served(tmp_path / "first", module_database, {})
    api = Api(first.url)
    api.push("away", 1)
    page = open_page(tolerated=f"{NETWORK}|asked {first.url}")
    page.goto(f"{first.url}/#/queues?search=away")
    becomes(page, "away", "Backlog", "1")
    first.end()
    shown(page, "The server cannot be reached.")
    assert page.locator("tbody th").all_inner_texts() == ["away"]  # the numbers from before stay, and say so
    shown(page, "The numbers below are from before")
    second = Served(tmp_path / "second", module_database, {"port": first.url.rpartition(":")[2]})
    try:
        api.push("away", 2)
        becomes(page, "away", "Backlog", "2")
        assert page.locator(".banner").count() == 0
    finally:
        api.close()
        second.end()


def test_a_hidden_tab_asks_nothing(server, api, page):
    api.push("hidden", 1)
    page.goto(f"{server.url}/#/queues/hidden")
    shown(page, "No group reads this queue")
    page.evaluate(HIDE, True)
    page.wait_for_load_state("networkidle")
    before = requests(server)
    page.wait_for_timeout(4_000)  # longer than the page waits between two questions
    assert requests(server) == before
    api.push("hidden", 2)
    page.evaluate(HIDE, False)
    until_now("the page asks again", lambda: requests(server) > before + 1)
    shown(page, "2 messages wait there")


def test_a_thousand_queues_are_smooth(server, api, page):
    for start in range(0, QUEUES, 100):
        items = [{"queue": f"many-{n:04}", "payload": n} for n in range(start, start + 100)]
        api.post("/push", {"items": items})
    page.goto(f"{server.url}/#/queues?search=many")
    shown(page, "1 to 50 of 1,000")
    spent = page.evaluate("""async () => {
      const field = document.querySelector('input[type=search]');
      const started = performance.now();
      for (const text of ['many-0', 'many-09', 'many-099', 'many-0', 'many']) {
        field.value = text;
        field.dispatchEvent(new Event('input', {bubbles: true}));
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
      }
      return (performance.now() - started) / 5;
    }""")
    assert spent < 250, f"a key takes {spent:.0f} ms"  # about 20 ms on an idle machine
    page.get_by_placeholder("Search").fill("many-0777")
    until_now("one is left", lambda: page.locator("tbody tr").count() == 1)
    page.get_by_placeholder("Search").fill("")
    page.get_by_role("button", name="Next: Queues").click()
    shown(page, "51 to 100 of")
