"""With tokens: a page to sign in, and buttons that follow the role."""

import pytest

from tests.broker.issuer import SECRET, token
from tests.dashboard.conftest import Api, shown

UNAUTHORIZED = "401"
BUTTONS = {
    "read-only": set(),
    "consumer": set(),
    "producer": {"Push a message"},
    "admin": {"Push a message", "Pause …", "Clear …", "Delete …"},
}


@pytest.fixture(scope="module")
def settings():
    return {"auth_secret": SECRET}


@pytest.fixture(scope="module")
def api(server):
    api = Api(server.url, token(roles=["admin"]))
    api.push("orders", 1, 2)
    api.pop("orders", consumerGroup="billing", autoAck="true")
    api.bury("letters", 1, error="broken")
    yield api
    api.close()


@pytest.fixture
def signed_in(api, open_page):
    """A page on which these roles have signed in."""

    def sign_in(*roles):
        page = open_page(tolerated=UNAUTHORIZED)
        page.goto(f"{api.url}/#/queues/orders")
        page.get_by_label("Token").fill(token(roles=list(roles)))
        page.get_by_role("button", name="Sign in").click()
        shown(page, "The last hour")
        return page

    return sign_in


@pytest.mark.parametrize("role", BUTTONS)
def test_buttons_follow_the_role(api, signed_in, role):
    page = signed_in(role)
    assert set(page.locator(".page-head button").all_inner_texts()) == BUTTONS[role]
    assert role in page.locator(".side-foot").inner_text()
    page.goto(f"{api.url}/#/queues/orders?tab=settings")
    page.get_by_label("leaseTime").wait_for()
    assert page.get_by_label("leaseTime").is_disabled() == (role != "admin")
    for address, text, button in (
        ("groups", "billing", "Seek billing on orders"),
        ("dead-letters", "broken", "Purge all"),
        ("queues", "letters", "Create a queue"),
    ):
        page.goto(f"{api.url}/#/{address}")
        shown(page, text)
        assert (page.get_by_role("button", name=button).count() > 0) == (role == "admin")


def test_a_reader_sees_a_dead_letter_and_can_only_copy_it(api, signed_in):
    page = signed_in("read-only")
    page.goto(f"{api.url}/#/dead-letters")
    page.get_by_role("button", name="Inspect").click()
    buttons = page.get_by_role("dialog").get_by_role("button").all_inner_texts()
    assert buttons == ["✕", "Copy the payload"]


def test_every_page_works_with_the_role_read_only(api, signed_in):
    page = signed_in("read-only")
    for address, text in {"": "Now", "queues": "letters", "groups": "billing", "ledger": "messages missing"}.items():
        page.goto(f"{api.url}/#/{address}")
        shown(page, text)
    assert page.get_by_role("alert").count() == 0


def test_a_bad_token_is_refused_with_the_reason(api, open_page):
    page = open_page(tolerated=UNAUTHORIZED)
    page.goto(f"{api.url}/#/queues")
    page.get_by_label("Token").fill(token(exp=1))
    page.get_by_role("button", name="Sign in").click()
    shown(page, "the token has expired")


def test_the_token_is_gone_after_signing_out_and_in_another_tab(api, signed_in):
    page = signed_in("admin")
    page.reload()
    shown(page, "The last hour")
    other = page.context.new_page()
    other.goto(f"{api.url}/#/queues/orders")
    shown(other, "Sign in to Queen")
    page.get_by_role("button", name="Sign out").click()
    shown(page, "Sign in to Queen")
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
