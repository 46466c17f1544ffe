"""The page: every file it names is served, guarded, and free of foreign hosts and inline code."""

import re
from html.parser import HTMLParser

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from docstokg_functions.page.page import POLICY
from docstokg_local.server.pages import VIEWER, page_routes


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=page_routes()))


class Named(HTMLParser):
    """The files that a page loads, and its inline scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        attributes = dict(attrs)
        if tag == "script" and "src" not in attributes:
            self.inline.append(tag)
        self.inline += [name for name in attributes if name == "style" or name.startswith("on")]
        if tag in ("script", "link"):
            self.files.append(attributes.get("src") or attributes.get("href"))


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_and_their_resources_are_served_and_guarded(client: TestClient, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    named = Named()
    named.feed(page.text)
    assert not named.inline
    assert named.files
    for file in named.files:
        assert not re.match(r"(?:https?:)?//", file)
        resource = client.get(f"/{file}")
        assert resource.status_code == 200, file
        assert resource.headers["x-content-type-options"] == "nosniff"
        policy = resource.headers["content-security-policy"]
        assert policy == POLICY or path == "/docs"


def test_no_other_file_can_be_asked_for(client: TestClient) -> None:
    for path in [
        "/static/page.js",
        "/../page.py",
        "/docs/..%2f..%2f__init__.py",
        "/docs/index.html",
    ]:
        assert client.get(path).status_code == 404
    assert len(VIEWER) == 2
