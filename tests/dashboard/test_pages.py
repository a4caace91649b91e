"""Every page loads, shows what the API says, and can be used by everybody, in both themes and on a phone."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import cells, shown
from tests.waits import until_now
from tools.shop import TRACE

AXE = Path(__file__).parent / "vendor/axe.js"
SERIOUS = {"serious", "critical"}
PAGES = {
    "": "Now",
    "queues": "6 queues",
    "queues/orders": "The last hour",
    "queues/orders?tab=partitions&group=billing": "9 partitions",
    "queues/orders?tab=groups": "shipping",
    "queues/orders?tab=settings": "leaseTime",
    "queues/parcels?tab=partitions": "no group reads this queue",
    "groups": "6 lines",
    "dead-letters": "grouped by error",
    "ledger": "messages missing",
    "queues/orders/partitions/ann": "Next offset",
    "traces": "under which consumers noted events",
    f"traces/{TRACE}": "from the first push to the last",
    "server": "Oldest transaction",
    "nowhere/at/all": "no page at this address",
}
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
ASKS_AXE = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.map(each => [each.impact, each.id, each.nodes.map(node => node.html.slice(0, 160))]);
}"""


def accessible(page):
    """Fail for what axe-core finds serious."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text())  # not a script of the page: its policy would refuse that
    serious = [violation for violation in page.evaluate(ASKS_AXE) if violation[0] in SERIOUS]
    assert serious == [], (page.url, serious)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_loads_and_is_accessible(shop, open_page, theme, size):
    page = open_page(color_scheme=theme, viewport=SIZES[size])
    for address, text in PAGES.items():
        page.goto(f"{shop.url}/#/{address}")
        shown(page, text)
        until_now("all of the page is there", lambda: page.locator(".loading").count() == 0)
        accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{address} is too wide"


def test_dialogs_are_accessible(shop, open_page):
    page = open_page(color_scheme="dark")
    page.goto(f"{shop.url}/#/queues/orders")
    page.get_by_role("button", name="Push a message").click()
    page.get_by_role("dialog").wait_for()
    accessible(page)
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Push a message"


def test_the_overview_shows_the_numbers_of_the_api(shop, page):
    page.goto(f"{shop.url}/#/")
    shown(page, "messages")
    totals = shop.get("/resources/overview")
    expected = {
        "Backlog": totals["messages"]["pending"],
        "Leased": totals["messages"]["processing"],
        "Dead letters": totals["messages"]["deadLetter"],
        "Stored": totals["messages"]["total"],
    }
    for label, number in expected.items():
        stat = page.locator(".stat", has=page.locator("dt", has_text=label)).locator("dd").first
        assert stat.inner_text() == (f"{number:,} messages" if number != 1 else "1 message")


def test_the_overview_says_first_what_needs_attention(shop, page):
    page.goto(f"{shop.url}/#/")
    shown(page, "No group reads parcels: 9 messages wait in 8 partitions.")
    shown(page, "No consumer has got a message as mailer on reminders yet.")
    page.get_by_role("link", name="No group reads parcels").click()
    shown(page, "No group reads this queue: 9 messages wait there.")


def test_the_list_shows_every_queue_read_or_not(shop, page):
    page.goto(f"{shop.url}/#/queues")
    for queue in shop.get("/resources/queues")["queues"]:
        line = cells(page, queue["name"])
        assert line["Backlog"] == f"{queue['messages']['pending']:,}"
        assert line["Dead"] == str(queue["messages"]["deadLetter"])
        assert line["Partitions"] == str(queue["partitions"])
        assert line["In"].endswith((" /s", " /min"))
    assert cells(page, "parcels")["Groups"] == "unread"
    page.get_by_placeholder("Search by name").fill("mail")
    until_now("two queues have the namespace mail", lambda: page.locator("tbody tr").count() == 2)
    page.get_by_label("Show").select_option("With dead letters")
    until_now("one of them has dead letters", lambda: page.locator("tbody th").all_inner_texts() == ["emails\nmail"])


def test_a_filter_is_saved_under_a_name_and_forgotten(shop, page):
    page.goto(f"{shop.url}/#/queues?search=mail")
    page.get_by_role("button", name="Save this filter").click()
    page.get_by_label("Name of the filter").fill("Letters")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto(f"{shop.url}/#/queues")
    page.reload()
    until_now("all queues are shown", lambda: page.locator("tbody tr").count() == 6)
    page.get_by_role("link", name="Letters", exact=True).click()
    until_now("two queues are shown", lambda: page.locator("tbody tr").count() == 2)
    page.get_by_role("button", name="Forget the filter Letters").click()
    assert page.get_by_role("link", name="Letters", exact=True).count() == 0
    assert page.evaluate("localStorage.getItem('queen-filters-queues')") == "{}"


def test_a_table_is_sorted_by_its_columns(shop, page):
    page.goto(f"{shop.url}/#/queues")
    backlog = page.get_by_role("button", name="Backlog")
    backlog.click()
    numbers = [int(text) for text in page.locator("tbody td[data-label=Backlog]").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    assert page.get_by_role("columnheader", name="Backlog").get_attribute("aria-sort") == "descending"
    backlog.click()
    assert page.get_by_role("columnheader", name="Backlog").get_attribute("aria-sort") == "ascending"


def test_the_partitions_say_why_a_group_gets_nothing(shop, page):
    page.goto(f"{shop.url}/#/queues/orders?tab=partitions&group=billing")
    reasons = shop.get("/why/orders", group="billing")
    assert "leased" in {reason["cause"] for reason in reasons}
    for reason in reasons:
        assert cells(page, reason["partition"])["Why"] == reason["explanation"]


def test_the_ledger_shows_that_nothing_is_missing(shop, page):
    page.goto(f"{shop.url}/#/ledger")
    shown(page, "all balanced in each partition")
    assert page.locator(".verdict .big").inner_text() == "0"
    for line in shop.get("/ledger"):
        row = page.locator("tbody tr", has_text=line["queue"]).filter(has_text=line["group"])
        parts = {"Pushed": "pushed", "Completed": "completed", "Pending": "pending"}
        for label, key in parts.items():
            assert row.locator(f"td[data-label={label}]").inner_text() == f"{line[key]:,}"


def test_each_chart_has_a_table_behind_it(shop, page):
    page.goto(f"{shop.url}/#/")
    chart = page.locator("figure", has_text="Messages per second")
    chart.locator("canvas").wait_for()
    chart.get_by_role("button", name="Table").click()
    steps = [each for each in shop.get("/status/analytics", interval="minute")["throughput"] if each["ingested"]]
    assert len(steps) >= 2
    rates = chart.locator("td[data-label=In]").all_inner_texts()
    assert len([rate for rate in rates if rate[0].isdigit() and rate != "0 /s"]) >= 2


def test_the_theme_can_be_chosen_by_hand_and_stays(shop, page):
    def ground():
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    page.goto(f"{shop.url}/#/ledger")
    light = ground()
    page.get_by_role("button", name="Dark").click()
    dark = ground()
    assert dark != light
    page.reload()
    assert ground() == dark
    page.get_by_role("button", name="Auto").click()
    assert ground() == light


def test_what_is_empty_says_so_and_how_to_fill_it(shop, page):
    page.goto(f"{shop.url}/#/dead-letters?queue=orders")
    shown(page, "There is no dead letter like this")
    page.goto(f"{shop.url}/#/queues/parcels?tab=groups")
    shown(page, "No group reads this queue. A group begins with its first pop.")
    shown(page, "queen pop parcels --group billing")


def test_a_queue_that_does_not_exist_is_a_failure_and_not_a_zero(shop, open_page):
    page = open_page(tolerated="404")
    page.goto(f"{shop.url}/#/queues/nowhere")
    page.get_by_role("alert").wait_for()
    assert 'there is no queue "nowhere"' in page.get_by_role("alert").inner_text()
    assert page.locator(".stat").count() == 0


def test_the_keyboard_reaches_the_page(shop, page):
    page.goto(f"{shop.url}/#/groups")
    shown(page, "6 lines")
    assert page.evaluate("document.activeElement.id") == "title"
    page.reload()
    shown(page, "6 lines")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "title"
