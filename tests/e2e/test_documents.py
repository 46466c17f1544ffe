"""Documents over HTTP: a server, its background process, and what happens when either is killed."""

import base64
import contextlib
import json
import os
import signal
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from docstokg.contracts.documents import CANCELLED, MAX_QUEUED
from docstokg_local.server.jobs import lock_of
from docstokg_local.server.lease import Lease
from tests.builders import eventually, keyed, refusal
from tests.e2e.test_serving import Serving

pytestmark = pytest.mark.timeout(240)
WORDS_ONLY = {
    "DOCSTOKG_EMBED_PROVIDER": "none",
    "DOCSTOKG_SPARSE": "none",
    "DOCSTOKG_NAMES": "rule",
}
KEYS = {
    "loader": {"namespaces": ["plant"], "load": ["plant"]},
    "outsider": {"namespaces": ["plant"], "groups": [], "load": ["plant"]},
    "reader": {"namespaces": ["plant"]},
    "stranger": {"namespaces": ["mill"], "load": ["*"]},
}
HTML = "<html><body><h1>Valves</h1><p>Valve seven closes at 12 bar.</p></body></html>"
PUMP = "# Care of pumps\n\nOil the pump every 40 days. Use oil of grade 5.\n"


def open_server(folder: Path, cache: Path, *options: str, **settings: str) -> Serving:
    """A server that ends with this module, unless a test ends it."""
    store = folder / "store.sqlite"
    serving = Serving(store, cache, "--workers", "1", *options, **WORDS_ONLY, **settings)
    OPENED.callback(serving.stop)
    return serving


OPENED = contextlib.ExitStack()


@pytest.fixture(scope="module", autouse=True)
def _closed():
    with OPENED:
        yield


class Asked:
    """A caller of the server."""

    def __init__(self, server: Serving, key: str) -> None:
        self.client = httpx.Client(base_url=server.url, headers={"X-Api-Key": key}, timeout=30)
        OPENED.callback(self.client.close)

    def load(self, *documents: dict, namespace: str = "plant", **fields) -> httpx.Response:
        body = {"namespace": namespace, "documents": documents, **fields}
        return self.client.post("/v1/documents", json=body)

    def delete(self, doc_id: str) -> httpx.Response:
        return self.client.delete(
            f"/v1/documents/{quote(doc_id, safe='')}", params={"namespace": "plant"}
        )

    def listed(self, namespace: str = "plant") -> dict[str, dict]:
        documents, cursor = {}, ""
        while cursor is not None:
            parameters = {"namespace": namespace, "cursor": cursor}
            page = self.client.get("/v1/documents", params=parameters).json()
            documents |= {document["doc_id"]: document for document in page["documents"]}
            cursor = page["cursor"]
        return documents

    def job(self, accepted: httpx.Response) -> dict:
        assert accepted.status_code == 202, accepted.text
        return self.client.get(f"/v1/jobs/{accepted.json()['job_id']}").json()

    def done(self, accepted: httpx.Response, within_s: float = 60) -> dict:
        assert eventually(lambda: self.job(accepted)["state"] in ("done", "failed"), within_s)
        return self.job(accepted)

    def first(self, question: str) -> dict | None:
        body = {"query": question, "namespace": "plant"}
        citations = self.client.post("/v1/search", json=body).json()["citations"]
        return citations[0] if citations else None


def workers_of(folder: Path) -> list[int]:
    """The processes that have the queue's lock open: those that work on it."""
    lock, pids = str(lock_of(folder / "store.sqlite.jobs")), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) == lock for file in (process / "fd").iterdir()):
                pids.append(int(process.name))
    return pids


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("posted")


@pytest.fixture(scope="module")
def server(folder, cache_dir):
    keys = keyed(folder, KEYS).items()
    return open_server(folder, cache_dir, **{f"DOCSTOKG_{k.upper()}": value for k, value in keys})


@pytest.fixture(scope="module")
def callers(server):
    return {name: Asked(server, name) for name in KEYS}


@pytest.fixture(scope="module")
def loaded(callers):
    """The first job: four documents, of which one is no PDF."""
    documents = [
        {"doc_id": "care/pumps.md", "text": PUMP, "metadata": {"site": "north"}},
        {
            "doc_id": "valves", "content": base64.b64encode(HTML.encode()).decode(),
            "media_type": "text/html", "title": "All valves",
        },
        {"doc_id": "secret", "text": "The safe opens with the number 4711.", "acl": ["staff"]},
        {"doc_id": "torn.pdf", "content": "AAAA", "media_type": "application/pdf"},
    ]  # fmt: skip
    loader = callers["loader"]
    accepted = loader.load(*documents)
    return accepted.json(), loader.done(accepted)


def test_sent_documents_are_listed_found_and_cited(callers, loaded) -> None:
    accepted, _ = loaded
    listed = callers["loader"].listed()
    assert {doc_id: document["title"] for doc_id, document in listed.items()} == {
        "care/pumps.md": "Care of pumps",
        "secret": "",
        "valves": "All valves",
    }
    assert {document["run_id"] for document in listed.values()} == {accepted["job_id"]}
    citation = callers["loader"].first("How often must the pump be oiled?")
    assert citation["doc_id"] == "care/pumps.md"
    assert PUMP[citation["char_start"] : citation["char_end"]] == citation["snippet"]
    assert callers["loader"].first("At how many bar does valve seven close?")["doc_id"] == "valves"
    body = {"query": "pump oil", "namespace": "plant", "filter": {"site": ["north"]}}
    answer = callers["loader"].client.post("/v1/search", json=body).json()
    assert {citation["doc_id"] for citation in answer["citations"]} == {"care/pumps.md"}


def test_lists_show_readable_documents_only(callers, loaded) -> None:
    assert set(callers["outsider"].listed()) == {"care/pumps.md", "valves"}
    spaces = callers["outsider"].client.get("/v1/namespaces").json()["namespaces"]
    assert [(space["namespace"], space["documents"]) for space in spaces] == [("plant", 2)]
    assert callers["stranger"].client.get("/v1/namespaces").json() == {"namespaces": []}
    refused = callers["stranger"].client.get("/v1/documents", params={"namespace": "plant"})
    assert refusal(refused) == (403, "namespace_not_granted")


def test_without_the_right_to_load_nothing_changes(callers, loaded) -> None:
    accepted, _ = loaded
    reader = callers["reader"]
    refused = reader.load({"doc_id": "more", "text": "More."})
    assert refusal(refused) == (403, "load_not_granted")
    assert reader.delete("valves").status_code == 403
    for caller in (reader, callers["stranger"]):
        assert caller.client.get(f"/v1/jobs/{accepted['job_id']}").status_code == 404
    page = reader.client.get("/v1/documents", params={"namespace": "plant"}).json()
    assert page["may_load"] is False


def test_hidden_and_absent_documents_are_indistinguishable(callers, loaded) -> None:
    outsider = callers["outsider"]
    hidden, absent = outsider.delete("secret"), outsider.delete("absent")
    assert hidden.status_code == absent.status_code == 404
    problems = [{k: v for k, v in r.json().items() if k != "request_id"} for r in (hidden, absent)]
    assert json.dumps(problems[0]).replace("secret", "absent") == json.dumps(problems[1])
    for replace in (False, True):
        assert outsider.load({"doc_id": "secret", "text": "x"}, replace=replace).status_code == 404
    assert "secret" in callers["loader"].listed()


def test_a_loaded_id_conflicts_until_it_is_replaced(callers, loaded) -> None:
    loader = callers["loader"]
    longer = "\n\n".join(f"Gate {n} has a wheel of {n} spokes. " * 40 for n in range(6))
    loader.done(loader.load({"doc_id": "gates", "text": longer}))
    assert loader.listed()["gates"]["chunks"] > 2
    refused = loader.load({"doc_id": "new", "text": "x y z"}, {"doc_id": "gates", "text": "y"})
    assert refused.status_code == 409
    assert [error["path"] for error in refused.json()["errors"]] == ["$.documents[1].doc_id"]
    assert "new" not in loader.listed()
    job = loader.done(loader.load({"doc_id": "gates", "text": "No gate is left."}, replace=True))
    assert job["loaded"] == 1
    assert loader.listed()["gates"]["chunks"] == 1
    assert loader.first("How many spokes has the wheel of gate 5?")["snippet"] != longer[:30]
    job = loader.done(loader.delete("gates"))
    assert (job["kind"], job["removed"]) == ("delete", 1)
    assert "gates" not in loader.listed()


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"doc_id": "a\x01b", "text": "x"}, ".doc_id"),
        ({"doc_id": "a/../b", "text": "x"}, ".doc_id"),
        ({"doc_id": "é" * 257, "text": "x"}, ".doc_id"),
        ({"doc_id": "", "text": "x"}, ".doc_id"),
        ({}, ""),
        ({"text": "x", "content": "AAAA"}, ""),
        ({"content": "AAAA"}, ""),
        ({"content": "A", "media_type": "text/html"}, ".content"),
        ({"content": "", "media_type": "image/png"}, ".media_type"),
        ({"text": "x", "colour": "red"}, ".colour"),
    ],
)
def test_a_wrong_document_is_refused_by_its_place(callers, document, path) -> None:
    refused = callers["loader"].load({"doc_id": "a", **document})
    assert refused.status_code == 400
    assert [error["path"] for error in refused.json()["errors"]] == [f"$.documents[0]{path}"]


def test_requests_take_four_mebibytes_and_a_hundred_documents(callers) -> None:
    loader = callers["loader"]
    many = [{"doc_id": str(number), "text": "x"} for number in range(101)]
    large = [{"doc_id": "large", "text": "x" * 4 * 1024 * 1024}]
    for documents, code in ((many, "too_many_documents"), (large, "body_too_large")):
        refused = loader.load(*documents)
        assert refusal(refused) == (413, code)
        assert "docstokg load" in refused.json()["detail"]
    assert loader.load(*[many[1]] * 2).status_code == 400


def test_a_list_goes_on_where_its_page_ended(callers, loaded) -> None:
    loader = callers["loader"]
    for start in (0, 70):
        documents = [
            {"doc_id": f"many-{n:03}", "text": f"Line {n}."} for n in range(start, start + 70)
        ]
        loader.done(loader.load(*documents))
    page = loader.client.get("/v1/documents", params={"namespace": "plant"}).json()
    assert len(page["documents"]) == 100
    assert len([doc_id for doc_id in loader.listed() if doc_id.startswith("many-")]) == 140


def test_at_most_ten_jobs_of_a_namespace_wait(folder, cache_dir, tmp_path) -> None:
    """Somebody else has the queue's lock, so that nothing is done meanwhile."""
    lease = Lease(lock_of(tmp_path / "store.sqlite.jobs"))
    assert lease.acquire()
    with contextlib.closing(lease):
        serving = open_server(tmp_path, cache_dir)
        anyone = Asked(serving, "")
        document = {"doc_id": "x", "text": "x"}
        for number in range(MAX_QUEUED):
            assert anyone.load(document | {"doc_id": str(number)}).status_code == 202
        refused = anyone.load(document)
        assert refusal(refused) == (429, "too_many_jobs")
        assert int(refused.headers["retry-after"]) >= 1
        assert anyone.load(document, namespace="mill").status_code == 202
        serving.stop()


def test_nobody_waits_for_all_that_another_namespace_sent(cache_dir, tmp_path) -> None:
    """Each of these pages takes all the processor time that a conversion may have."""
    deep = base64.b64encode(b"<div>" * 200_000).decode()
    pages = [{"doc_id": str(n), "content": deep, "media_type": "text/html"} for n in range(3)]
    anyone = Asked(open_server(tmp_path, cache_dir), "")
    long = anyone.load(*pages)
    job = f"/v1/jobs/{long.json()['job_id']}"
    short = anyone.load({"doc_id": "line", "text": "The lamp is lit."}, namespace="mill")
    assert anyone.done(short, within_s=150)["loaded"] == 1
    meanwhile = anyone.job(long)
    assert (meanwhile["state"], len(meanwhile["rejected"])) == ("running", 1), meanwhile
    assert "longer than 8 s" in meanwhile["rejected"][0]["reason"]
    cancelled = anyone.client.delete(job).json()
    assert (cancelled["state"], cancelled["reason"]) == ("failed", CANCELLED)
    again = anyone.load({"doc_id": "more", "text": "The lamp is out."}, namespace="mill")
    assert anyone.done(again, within_s=150)["loaded"] == 1
    assert anyone.job(long) == anyone.client.delete(job).json() == cancelled
    assert anyone.client.delete("/v1/jobs/none").status_code == 404


def test_without_keys_only_this_machine_may_load(cache_dir, tmp_path) -> None:
    serving = open_server(tmp_path, cache_dir, "--host", "0.0.0.0")
    serving.url = f"http://127.0.0.1:{serving.port}"
    anyone = Asked(serving, "")
    refused = anyone.load({"doc_id": "a", "text": "x"})
    assert refusal(refused) == (403, "loopback_only")
    assert anyone.delete("a").json()["code"] == "loopback_only"
    assert anyone.client.get("/v1/namespaces").status_code == 200


def test_killed_workers_and_killed_servers_lose_no_job(cache_dir, tmp_path) -> None:
    """The job is taken up by the next worker, started by the same server and by another one."""
    serving = open_server(tmp_path, cache_dir)
    anyone = Asked(serving, "")
    text = "\n\n".join(
        f"## Part {n}\n\nThe lamp of part {n} is lit at {n} o'clock. " * 9 for n in range(60)
    )
    documents = [{"doc_id": f"lamps-{n}.md", "text": f"# Lamps {n}\n\n{text}"} for n in range(20)]
    accepted = anyone.load(*documents)
    killed = 0
    for pause_s in (0.3, 0.8):
        workers = eventually(lambda: workers_of(tmp_path), 40)
        time.sleep(pause_s)
        for worker in set(workers) - {serving.process.pid}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed += 1
    assert killed >= 1
    assert anyone.job(accepted)["state"] in ("queued", "running")
    serving.process.kill()
    serving.stop()
    serving = open_server(tmp_path, cache_dir)
    anyone = Asked(serving, "")
    job = anyone.done(accepted, within_s=150)
    assert (job["state"], job["loaded"]) == ("done", 20), job
    assert len(anyone.listed()) == 20
