"""Each kind of work has its own slots: page views, checks and models leave the searches alone."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg_local.server.exchange import demand_of
from tests.builders import keyed
from tests.builders import tool_call as call
from tests.conftest import load_folder
from tests.model_server import ModelServer, serving

pytestmark = pytest.mark.timeout(240)
CURVES = 4000
"""Dashed curves of a drawing: several seconds of processor time."""


def plan() -> bytes:
    """A PDF with one line of text on a drawing."""
    rng = random.Random(7)
    line = "{} {} m {} {} {} {} {} {} c S\n"
    lines = "".join(line.format(*(rng.randrange(600) for _ in range(8))) for _ in range(CURVES))
    text = "BT /F1 12 Tf 72 720 Td (The harbour wall is 9 m high.) Tj ET 9 w [3 2] 0 d\n"
    stream = (text + lines).encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
        b"<</Length %d>>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 3 0 R/Resources<</Font<</F1"
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>",
    ]
    numbered = (b"%d 0 obj\n%s\nendobj\n" % (n, content) for n, content in enumerate(objects, 1))
    end = b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n9\n%%EOF"
    return b"%PDF-1.4\n" + b"".join(numbered) + end


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    (folder / "files").mkdir()
    (folder / "files" / "plan.pdf").write_bytes(plan())
    assert load_folder(folder / "files", folder / "store.sqlite", cache_dir).rejected == 0
    return folder / "store.sqlite"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    return keyed(tmp_path, {"viewer": {}, "other": {}})


def search(url: str) -> httpx.Response:
    body = {"query": "How high is the harbour wall?", "budget": {"timeout_s": 12}}
    key = {"X-Api-Key": "other"}
    return httpx.post(f"{url}/v1/search", json=body, headers=key, timeout=60)


def test_slow_page_views_leave_searches_of_others_alone(server_for, store, keys) -> None:
    def view(url: str) -> int:
        key = {"X-Api-Key": "viewer"}
        page = f"{url}/v1/documents/plan.pdf/pages/1"
        return httpx.get(page, headers=key, timeout=60).status_code

    url = server_for(store, **keys)
    with ThreadPoolExecutor(3) as viewers:
        assert search(url).status_code == 200
        views = [viewers.submit(view, url) for _ in range(3)]
        search_statuses = [search(url).status_code]
        while not any(view.done() for view in views):
            search_statuses.append(search(url).status_code)
        search_statuses += [search(url).status_code for _ in range(3)]
        assert set(search_statuses) == {200}
        statuses = [view.result() for view in views]
    assert set(statuses) <= {200, 503, 504}
    assert 200 in statuses


def test_hanging_models_leave_the_searches_of_others_alone(server_for, store, keys) -> None:
    def status_of(url: str) -> int:
        body = {
            "query": "How high is the harbour wall?",
            "synthesis": {"enabled": True},  # the default model is a remote one
            "budget": {"timeout_s": 5, "max_tokens_gen": 300},
        }
        key = {"X-Api-Key": "viewer"}
        return httpx.post(f"{url}/v1/answer", json=body, headers=key, timeout=60).status_code

    with serving(ModelServer(mode="hang")) as model:
        at = {"llm_base_url": model.url, "models": ("gpt-4o-mini", EXTRACTIVE)}
        url = server_for(store, **keys, **at)
        with ThreadPoolExecutor(5) as askers:
            answers = [askers.submit(status_of, url) for _ in range(5)]
            while not model.requests and not all(answer.done() for answer in answers):
                threading.Event().wait(0.05)
            assert {search(url).status_code for _ in range(3)} == {200}
            assert {answer.result() for answer in answers} <= {200, 503, 504}


ON, OFF = {"enabled": True}, {"enabled": False}
ANSWER, EXTRACT = "answer_with_citations", {"enabled": True, "model": EXTRACTIVE}


@pytest.mark.parametrize(
    ("route", "message", "work"),
    [
        ("search", {"query": "a?"}, "search"),
        ("answer", {"query": "a?"}, "search"),
        ("answer", {"synthesis": ON}, "model"),
        ("answer", {"synthesis": EXTRACT}, "search"),
        ("answer", {"synthesis": {"enabled": True, "model": "m"}}, "model"),
        ("answer", {"synthesis": "on"}, "search"),
        ("answer", [], "search"),
        ("chat", {"model": "m@space"}, "model"),
        ("chat", {"model": "extractive@space"}, "search"),
        ("responses", {"model": "m@space"}, "model"),
        ("responses", {"model": "extractive@space"}, "search"),
        ("check", {"text": "a"}, "check"),
        ("page", {}, "page"),
        ("load", {}, "load"),
        ("traverse", {}, "search"),
        ("mcp", call(ANSWER), "model"),
        ("mcp", call(ANSWER, synthesis=OFF), "search"),
        ("mcp", call(ANSWER, synthesis=EXTRACT), "search"),
        ("mcp", call("check_grounding"), "check"),
        ("mcp", call("search_documentation"), "search"),
        ("mcp", {"params": {"name": ["x"]}}, "search"),
        ("mcp", {"method": "tools/list"}, "search"),
    ],
)
def test_kind_of_work_is_read_from_the_request(route: Any, message: Any, work: str) -> None:
    body = json.dumps(message).encode()
    assert demand_of(route, body, "", 12.0, 25.0, has_remote=True).work == work
    if message == call(ANSWER):
        assert demand_of(route, body, "", 12.0, 25.0, has_remote=False).work == "search"
