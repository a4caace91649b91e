"""Every link between pages leads somewhere."""

import re

import pytest

from tests.docs.page import PAGES, ROOT

LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
FILES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def headings(text: str) -> set[str]:
    """The anchors of a page, made as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page):
    for link in LINK.finditer(page.read_text()):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        assert target.exists(), f"{link[0]} leads nowhere"
        assert link["heading"] is None or link["heading"] in headings(target.read_text()), f"no heading for {link[0]}"
