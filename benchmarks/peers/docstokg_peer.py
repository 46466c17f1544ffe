"""DocsToKG RAG itself, over HTTP, on the same servers, passages and questions."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

from common import Ask, Task, main

from benchmarks.load import Server
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of

LOCAL = threading.local()


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load the set with a load's own defaults, and ask with and without the graph."""
    values = {
        "index_url": task.index_url,
        "graph_url": task.graph_url,
        "graph_user": task.graph_user,
        "graph_password": task.graph_password,
    }
    with_triples = "triples" if task.triples else "passages"
    name = f"{task.name}-{with_triples}"
    wiring = Wiring(Settings(**values))
    folder = task.cache / name
    folder.mkdir(exist_ok=True)
    for file, lines in (("passages", task.passages), ("triples", task.triples)):
        content = "".join(json.dumps(line) + "\n" for line in lines)
        if content:
            (Path(folder) / f"{file}.jsonl").write_text(content, "utf-8")
    load([folder], LoadOptions(namespace=name), stores_of(wiring), RejectLog(None))
    wiring.close()
    server = Server({f"DOCSTOKG_{key.upper()}": value for key, value in values.items()}, 1)
    task.pids.extend(server.pids())
    # Again, because new Java processes answer the first hundreds of questions slowly.
    for again in ("", ", again"):
        for label, options in (("", {}), (", graph off", {"kg_expansion": {"enabled": False}})):
            yield f"docstokg{label}{again}", asker(server.port, {"namespace": name, **options})
    server.close()


def asker(port: int, options: dict[str, object]) -> Ask:
    """Return a function that asks the server, with one connection per thread."""

    def ask_server(question: str) -> list[str]:
        if not hasattr(LOCAL, "line"):
            LOCAL.line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = {"query": question, "top_k": 20, "verbosity": "snippet", **options}
        request = ("POST", "/v1/answer", json.dumps(body), {"Content-Type": "application/json"})
        try:
            LOCAL.line.request(*request)
            answer = LOCAL.line.getresponse()
        except (OSError, http.client.HTTPException):
            LOCAL.line.close()  # idle for over five seconds: the server closed it
            LOCAL.line.request(*request)
            answer = LOCAL.line.getresponse()
        reply = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(reply.get("code"))
        return [citation["doc_id"] for citation in reply["citations"]]

    return ask_server


if __name__ == "__main__":
    main(build, "neo4j", "urllib3")
