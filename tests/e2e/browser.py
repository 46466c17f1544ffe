"""A Chromium of this machine, the states of the page worth looking at, and their pictures.

python -m tests.e2e.browser docs/images     (needs the demo's store: `make demo`)
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
REQUIRED = "chromium" in os.environ.get("DOCSTOKG_REQUIRE", "").replace(",", " ").split()
PATIENCE_MS = 60_000
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 820, "height": 600}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 820, "height": 600}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 640}, "color_scheme": "light"},
}


def chromium() -> str:
    """Give the path of an installed Chromium; skip, or fail where it is required, without one."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    missing = "no Chromium is installed (Debian: apt-get install chromium)"
    if REQUIRED:
        pytest.fail(f"DOCSTOKG_REQUIRE=chromium, but {missing}", pytrace=False)
    pytest.skip(missing)


@contextmanager
def launched() -> Iterator[Browser]:
    """Run the browser; as root it has no sandbox of its own."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


def submit_question(page: Page, question: str) -> None:
    """Type a question, send it with Enter, wait for the passages or the problem."""
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    # The page's policy forbids `eval`, so states are waited for by selectors.
    page.locator("#send:not([disabled])").wait_for(timeout=PATIENCE_MS)
    page.locator("#result:visible, #problem:visible").first.wait_for(timeout=PATIENCE_MS)


def light_a_span(page: Page) -> None:
    """Follow the first marker of the answer into its passage."""
    page.locator("#answer .marker").first.click()
    page.locator("#passage mark").first.wait_for(timeout=PATIENCE_MS)


def draw(page: Page) -> None:
    """Draw the graph."""
    page.get_by_role("button", name="Draw the graph").click()
    page.locator("#graph svg").wait_for(timeout=PATIENCE_MS)


def fail(page: Page) -> None:
    """Ask for a model that the server does not know."""
    page.locator("#settings summary").click()
    page.get_by_label("Answer by").fill("gpt-9")
    submit_question(page, "What is a seizure?")


def upload(page: Page, file: Path) -> None:
    """Load a file in the tab of documents and wait until it is listed."""
    page.get_by_role("tab", name="Documents").click()
    page.locator("#upload").wait_for(timeout=PATIENCE_MS)
    page.locator("#files").set_input_files(file)
    page.get_by_role("button", name="Load these files").click()
    page.locator("#upload-status", has_text="done").wait_for(timeout=PATIENCE_MS)
    page.locator("#documents td", has_text=file.name).wait_for(timeout=PATIENCE_MS)


def pictures(target: Path) -> None:
    """Write the pictures of every state in every look, from a copy of the demo's store."""
    question = "Which syndrome has a happy demeanor and absent speech?"
    from docstokg.settings import Settings
    from tests.conftest import copy_of
    from tests.e2e.conftest import served

    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched() as browser, ExitStack() as servers:
        store = copy_of(Path(".docstokg/store.sqlite"), Path(folder))
        note = Path(folder) / "leave.md"
        note.write_text("# Leave\n\nEverybody has 30 days of leave a year.\n", encoding="utf-8")
        url, broken = f"sqlite:///{store}", f"sqlite:///{folder}/missing.sqlite"
        good, degraded = (
            servers.enter_context(served(Settings(index_url=url, graph_url=graph)))
            for graph in (url, broken)
        )
        for look, options in LOOKS.items():

            def opened(address: str, options: dict[str, Any] = options) -> Page:
                page = browser.new_context(**options).new_page()
                page.goto(address)
                return page

            def taken(page: Page, name: str, at: str = "main", look: str = look) -> None:
                page.locator(at).first.scroll_into_view_if_needed()
                page.wait_for_timeout(200)
                page.screenshot(path=target / f"{name}-{look}.png")

            page = opened(good)
            submit_question(page, question)
            page.evaluate("scrollTo(0, 0)")
            taken(page, "answer", "h1")
            light_a_span(page)
            taken(page, "span", "#passage mark")
            draw(page)
            page.locator("#graph-title").evaluate("one => one.scrollIntoView()")
            taken(page, "graph", "#graph-title")
            page = opened(degraded)
            submit_question(page, question)
            page.evaluate("scrollTo(0, 0)")
            taken(page, "degraded", "h1")
            page = opened(good)
            page.locator("#settings summary").click()
            page.get_by_label("Namespace", exact=True).fill(f"handbook-{look}")
            upload(page, note)
            taken(page, "upload", "h1")
            page = opened(good)
            fail(page)
            taken(page, "error", "#problem")


if __name__ == "__main__":
    pictures(Path(sys.argv[1]))
