"""The page in a real browser: asked, read, drawn, refused, by keyboard, with axe looking on."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.builders import keyed, ran, write_files
from tests.conftest import load_folder
from tests.e2e.browser import (
    LOOKS,
    PATIENCE_MS,
    draw,
    fail,
    launched,
    light_a_span,
    submit_question,
    upload,
)
from tests.streaming_model import StreamingModel, streaming

SLOWLY = "A seizure is an event [1]. It may be short [1]. Fever may cause one [2]. "
pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("browser"),
    # litellm reads its parts by an attribute that pydantic has renamed.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
QUESTION = "What are seizures?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as running:
        yield running


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page that may speak to its own server only and has nothing to complain of."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page = context.new_page()
    complaints, foreign = [], []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((url, "data:")) else foreign.append(request.url)
        ),
    )
    page.goto(url)
    yield page
    assert not foreign
    # A status of 400 or more is told by the browser itself; the page shows it in words.
    assert [
        complaint for complaint in complaints if "Failed to load resource" not in complaint
    ] == []
    context.close()


def judged(page: Page) -> list[str]:
    """Give what axe finds that would keep somebody out."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:120]}"
        for violation in violations
        if violation["impact"] in ("critical", "serious")
        for node in violation["nodes"]
    ]


def too_wide(page: Page) -> int:
    """Give how many pixels the page is wider than its window."""
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


def test_an_answer_leads_to_span_graph_and_command(page: Page, tmp_path: Path) -> None:
    submit_question(page, QUESTION)
    answer = page.locator("#answer").inner_text()
    assert "[1]" in answer
    assert "quoted from [" in page.locator("#confidence").inner_text()
    light_a_span(page)
    lit = page.locator("#passage mark").first.inner_text()
    assert lit and lit in page.locator("#passage .text").inner_text()
    assert page.evaluate("document.activeElement.id") == "reader"
    draw(page)
    assert page.locator("#graph svg").locator("text").count() > 1
    assert "ms" in page.locator("#steps").inner_text()
    assert page.locator("#degraded").is_hidden()
    assert "v1/answer" in page.locator("#curl").inner_text()


@pytest.mark.parametrize(
    "question",
    ['What\'s a "seizure"?', "What is `id` and $(id) and $HOME?", "a \\ b ' ' \\' c; echo no"],
)
def test_the_command_runs_as_pasted(page: Page, question: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl is installed")
    submit_question(page, question)
    pasted = page.locator("#curl").inner_text()
    done = ran("sh", "-c", pasted, check=True)
    assert json.loads(done.stdout)["query"] == question.strip()


def test_a_refusal_is_said_in_words(page: Page) -> None:
    fail(page)
    assert "must be one of" in page.locator("#problem").inner_text()
    assert page.locator("#result").is_hidden()


@pytest.mark.parametrize("look", LOOKS)
def test_what_did_not_answer_is_said_in_words(
    browser: Browser, server_for, tmp_path: Path, look: str
) -> None:
    url = server_for(graph_url=f"sqlite:///{tmp_path}/missing.sqlite")
    page = browser.new_context(**LOOKS[look]).new_page()
    page.goto(url)
    submit_question(page, QUESTION)
    notice = page.locator("#degraded").inner_text()
    assert "the knowledge graph was unavailable" in notice
    assert "kg_unavailable" not in page.locator("main").inner_text()
    assert judged(page) == []
    assert too_wide(page) <= 0
    page.context.close()


def test_a_requested_key_is_kept_in_memory_only(
    browser: Browser, server_for, tmp_path: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(server_for(**keyed(tmp_path, {"SECRET-K": {}})))
    submit_question(page, QUESTION)
    assert "X-Api-Key" in page.locator("#problem").inner_text()
    page.get_by_label("API key").fill("SECRET-K")
    submit_question(page, QUESTION)
    assert "[1]" in page.locator("#answer").inner_text()
    stored = page.evaluate(
        "[location.href, JSON.stringify(localStorage), JSON.stringify(sessionStorage)]"
    )
    assert not any("SECRET-K" in text for text in stored)
    assert context.cookies() == []
    assert "SECRET-K" not in page.locator("#curl").inner_text()
    context.close()


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.locator("#answer .marker").first.wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "marker":
            break
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "reader"


@pytest.mark.parametrize("look", LOOKS)
def test_documents_are_loaded_and_removed(
    browser: Browser, server_for, tmp_path: Path, look: str
) -> None:
    page = browser.new_context(**LOOKS[look]).new_page()
    page.goto(server_for(tmp_path / "own.sqlite"))
    note = tmp_path / "leave.md"
    note.write_text("# Leave\n\nEverybody has 30 days of leave a year.\n")
    upload(page, note)
    assert judged(page) == []
    assert too_wide(page) <= 0
    page.get_by_role("tab", name="Ask").click()
    submit_question(page, "How many days of leave does everybody have?")
    assert "30 days" in page.locator("#answer").inner_text()
    page.get_by_role("tab", name="Documents").click()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Really remove").click()
    page.get_by_text("Nothing is loaded").wait_for()
    page.context.close()


@pytest.mark.parametrize("look", LOOKS)
def test_nobody_is_kept_out(browser: Browser, url: str, look: str) -> None:
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    page.goto(url)
    assert judged(page) == []
    submit_question(page, QUESTION)
    assert judged(page) == []
    light_a_span(page)
    draw(page)
    assert judged(page) == []
    assert too_wide(page) <= 0
    fail(page)
    assert judged(page) == []
    assert too_wide(page) <= 0
    context.close()


def test_code_in_an_answer_is_shown_as_code(
    browser: Browser, server_for, tmp_path: Path, cache_dir: Path
) -> None:
    text = "# Server\n\nRun the server:\n\n```shell\n$ uvicorn example:app\n```\n"
    folder = write_files(tmp_path / "notes", {"server.md": text})
    load_folder(folder, tmp_path / "own.sqlite", cache_dir)
    page = browser.new_page()
    page.goto(server_for(tmp_path / "own.sqlite"))
    submit_question(page, "How do I run the server?")
    assert page.locator("#answer pre").inner_text() == "$ uvicorn example:app"
    assert "```" not in page.locator("#answer").inner_text()
    assert judged(page) == []
    page.close()


def test_a_conversation_continues_stops_and_begins_anew(browser: Browser, server_for) -> None:
    with streaming(StreamingModel(SLOWLY, piece_s=0.02)) as model:
        # On a fresh machine the first call to a model imports, and compiles, its library.
        patient = {"max_timeout_s": 60.0, "models": ("gateway/tiny", "extractive")}
        page = browser.new_page()
        page.goto(server_for(llm_base_url=model.url, **patient))
        page.locator("#models option[value='gateway/tiny']").wait_for(state="attached")
        page.locator("#settings summary").click()
        page.locator("#model").fill("gateway/tiny")
        page.locator("#timeout_s").fill("60")
        submit_question(page, QUESTION)
        answer = page.locator("#answer", has_text="A seizure is an event [1].")
        answer.wait_for(timeout=PATIENCE_MS)
        assert page.evaluate("document.activeElement.id") == "question"
        submit_question(page, "And the event?")
        assert "understood as" in page.locator("#understood").inner_text()
        assert page.locator("#thread li").count() == 1
        model.answer, model.piece_s = SLOWLY * 20, 0.1
        page.locator("#question").fill("What else is known?")
        page.keyboard.press("Enter")
        page.locator("#asked", has_text="What else").wait_for()
        page.locator("#view-ask:has(#thread li + li) #answer .sentence").first.wait_for()
        page.keyboard.press("Escape")
        page.locator("#status", has_text="Stopped").wait_for()
        assert page.locator("#stop").is_hidden()
        assert page.locator("#thread li").count() == 2
        for _ in range(100):
            if not model.open_calls:
                break
            page.wait_for_timeout(100)
        assert (model.open_calls, model.left) == (0, 1)
        page.locator("#thread button").first.press("Enter")
        assert page.locator("#asked").inner_text() == QUESTION
        assert judged(page) == []
        page.locator("#anew").press("Enter")
        assert page.locator("#thread li").count() == 0
        assert page.locator("#result").is_hidden()
        page.close()


def test_an_export_has_no_active_parts(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.goto(url)
    hostile = (
        "See [the manual](javascript:alert(1)), [it](java&#115;cript:x), ![p](data:text/html,x),"
        " [site](https://a.b/c) and <script>alert(1)</script>; `<b>` is code, 3 < 4."
    )
    citation = {"rank": 1, "doc_id": "<img src=x>", "snippet": hostile, "uuid": "u"}
    response = {
        **{"query": "What?", "answer": hostile, "citations": [citation]},
        **{"grounding": None, "metadata": {"namespace": "default"}},
    }
    export = page.evaluate(
        "async (response) => (await import('./keeping.js')).markdownOf(response, 'http://x/')",
        response,
    )
    plain = (
        "See the manual, it, p, [site](https://a.b/c) and &lt;script>alert(1)&lt;/script>;"
        " `<b>` is code, 3 < 4."
    )
    assert export.count(plain) == 2
    assert "javascript:" not in export and "<img" not in export and "data:" not in export
