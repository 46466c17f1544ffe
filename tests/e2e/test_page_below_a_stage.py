"""The page where its address has a stage in it, as deployed: every address is relative."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import launched, submit_question
from tests.e2e.stage import behind_keys, gateway

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("browser")]


@pytest.fixture
def stage(server_for: Any, tmp_path: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The page below a stage; who sends any token and any key is let in."""
    behind = behind_keys(server_for, tmp_path)
    with gateway(
        behind, admits=lambda sent: {"authorization", "x-api-key"} <= sent.keys()
    ) as opened:
        yield opened


def test_browsers_send_token_and_key_below_the_stage(stage: Any) -> None:
    address, heard = stage
    with launched() as browser:
        page = browser.new_page()
        page.goto(address)
        assert page.url == f"{address}/"
        submit_question(page, "What are seizures?")
        assert "key" in page.locator("#problem").inner_text().lower()
        page.get_by_label("Token", exact=True).fill("header.claims.signature")
        page.get_by_label("API key", exact=True).fill("metered")
        submit_question(page, "What are seizures?")
        assert "[1]" in page.locator("#answer").inner_text()
        request = next(
            request for request in reversed(heard) if request["path"].endswith("/v1/answer/stream")
        )
        assert request["authorization"] == "Bearer header.claims.signature"
        assert request["x-api-key"] == "metered"
        command = page.locator("#curl").inner_text()
        assert f"{address}/v1/answer" in command and "signature" not in command
        assert "Bearer $DOCSTOKG_TOKEN" in command and "$DOCSTOKG_KEY" in command


def test_the_reference_tries_requests_below_the_stage(stage: Any) -> None:
    address, heard = stage
    with launched() as browser:
        page = browser.new_page()
        page.goto(f"{address}/docs/")
        assert page.url == f"{address}/docs"
        # The list grows while it is read: a path is opened when the last one is there.
        page.locator('[data-path="/openapi.json"]').wait_for()
        page.locator('[data-path="/v1/health"]').click()
        page.get_by_role("button", name="Try it out").first.click()
        page.get_by_role("button", name="Execute").first.click()
        page.locator(".live-responses-table .response-col_status", has_text="200").wait_for()
    assert heard[-1]["path"] == "/live/v1/health"
