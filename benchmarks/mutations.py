"""Mutated requests on every route, and a caller of one namespace who names another.

usage: python -m benchmarks.mutations SEED REQUESTS [PROBES]     (PROBES: default 3 of 10 REQUESTS)

Starts a server on a temporary store of the demo. Prints how often each status came, each request
without a reply or with a status from 500 on that does not say `overloaded`, and each leak: a secret
word, or another status than the same request gets for a namespace that does not exist. Exits with 1
if any is there.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from benchmarks.load import Server
from docstokg.domain.identity import chunk_uuid

Json = dict[str, Any]
AT_ONCE = 4
SECRET = "axolotl"
TURNS = [{"role": "user", "content": "What are seizures?"}]
ASKED: Json = {"query": "What are seizures?", "top_k": 3, "namespace": "default"}
ANSWERED = {"synthesis": {"enabled": True, "max_tokens_gen": 50, "model": "extractive"}}
FILES = [{"doc_id": "a", "text": "Oil the pump.", "acl": ["staff"], "metadata": {"site": 1}}]
CALL: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
TOOLS = [
    "search_documentation",
    "answer_with_citations",
    "check_grounding",
    "traverse_relationships",
    "list_documents",
    "list_namespaces",
    "read_passage",
    "search",
    "fetch",
]
BODIES: dict[str, Json] = {
    "/v1/search": {**ASKED, "filter": {"source": ["hpo"]}, "history": TURNS},
    "/v1/answer": {**ASKED, **ANSWERED, "budget": {"timeout_s": 5}},
    "/v1/answer/stream": {**ASKED, **ANSWERED, "verbosity": "graph"},
    "/v1/explain": {**ASKED, "expect": {"doc_id": "d"}},
    "/v1/check": {"text": "Seizures are events [1].", "namespace": "default"},
    "/v1/traverse": {"seed_ids": ["doc:HP:0001250"], "namespace": "default", "max_depth": 2},
    "/v1/chat/completions": {"model": "extractive", "messages": TURNS, "stream": False},
    "/v1/responses": {"model": "extractive@default", "input": TURNS, "text": {}, "tools": []},
    "/v1/documents": {"namespace": "mutated", "documents": FILES},
    "/mcp": {**CALL, "params": {"name": TOOLS[0], "arguments": {"query": "seizures"}}},
}
PATHS = """GET /v1/{0}
GET /v1/documents?namespace={0}&cursor={1}
DELETE /v1/documents/{0}?namespace={1}
GET /v1/documents/{0}/pages/{1}?namespace={2}
GET /v1/jobs/{0}
DELETE /v1/jobs/{0}
GET /v1/models/{0}
GET /openapi.json?{0}
GET /.well-known/docstokg-keys.json?{0}""".splitlines()
DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]
TEXTS = ("", " ", "\0", "\u202eé𝕏" * 999, "x" * 70_000, "../../etc", "*", "2026-13-45", "1e999")
ODD = (*TEXTS, "\ud800", None, True, -1, 0, 1e308, float("nan"), 10**40, [], {}, ["a"] * 999, DEEP)
HEADERS = [
    "Accept",
    "Authorization",
    "Content-Encoding",
    "Content-Type",
    "Idempotency-Key",
    "MCP-Protocol-Version",
    "Origin",
    "Range",
    "X-Api-Key",
    "X-Request-Id",
    "traceparent",
]
VALUES = ("", "é", "x" * 5000, "*/*", "Bearer a.b.c", "gzip", "text/event-stream", "a; q=9")


class Sent(NamedTuple):
    """A request and its reply; status 0: none came."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    status: int = 0
    text: str = ""


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON value with each of its keys."""
    for key in list(part) if isinstance(part, dict) else range(len(part)):
        yield part, key
        if isinstance(part[key], (dict, list)):
            yield from places(part[key])


def mutated(chance: random.Random, body: Json, fields: list[str]) -> bytes:
    """Drop, replace, repeat or add fields at most twice, then perhaps break the bytes."""
    body = copy.deepcopy(body)
    for _ in range(chance.randint(0, 2)):
        part, key = chance.choice(list(places(body)) or [(body, None)])
        kind = chance.randrange(4)
        if key is None or kind == 0:
            body[chance.choice(fields)] = chance.choice(ODD)
        elif kind == 1:
            del part[key]
        else:
            part[key] = chance.choice(ODD) if kind == 2 else [part[key]] * 9
    data = json.dumps(body).encode()
    cut = chance.randrange(len(data))
    broken = (data[:cut], data[:-1] + b"," + data[1:], data[:cut] + b"\xff\0" + data[cut:])
    return chance.choice(broken) if chance.random() < 0.1 else data


def requests(chance: random.Random, count: int, fields: list[str]) -> Iterator[Sent]:
    """Yield mutated requests, each route in turn."""
    routes = [*(f"POST {path}" for path in BODIES), *PATHS]
    names = ("default", "health", "models", "namespaces", "documents", *TEXTS)
    for number in range(count):
        method, path = routes[number % len(routes)].split()
        headers = {"X-Api-Key": "all", "Content-Type": "application/json"}
        if chance.random() < 0.2:
            headers[chance.choice(HEADERS)] = chance.choice(VALUES)
        body = mutated(chance, BODIES[path], fields) if method == "POST" else b""
        filled = [quote(chance.choice(names)[:3000], "") for _ in range(3)]
        yield Sent(method, path.format(*filled), body, headers)


def targets(chance: random.Random, space: str) -> Iterator[Sent]:
    """Yield requests that name a namespace, its document, chunk and seeds, in every field."""
    uuid, doc = chunk_uuid(space, "c1"), f"{space}-doc"
    question = chance.choice(("Who keeps the vault code?", "vault report", "Is the vault safe?"))
    asked, turns = {"query": question, "top_k": chance.randint(1, 20)}, [{**TURNS[0]}]
    turns[0]["content"] = question
    tools = [{"type": "file_search", "vector_store_ids": [space]}]
    uri = f"docstokg://{space}/passages/{uuid}"
    named: list[Json] = [{"namespace": space}, {"namespaces": [space]}, {}]
    scoped = [*named, {"filter": {"doc_id": [doc]}}, {"namespaces": ["acme", space]}]
    bodies: list[tuple[str, Json]] = [
        *(("/v1/search", asked | more) for more in scoped),
        *(("/v1/answer", asked | ANSWERED | {"cache_key": "shared"} | more) for more in scoped),
        *(("/v1/explain", asked | {"expect": {"doc_id": doc}} | more) for more in named),
        *(
            ("/v1/check", {"text": "Safe [1].", "citations": [{"rank": 1, "uuid": uuid}]} | more)
            for more in named
        ),
        *(
            ("/v1/traverse", {"seed_ids": [seed], "query": question} | more)
            for seed in (f"doc:{doc}", f"chunk:{uuid}", uuid)
            for more in named
        ),
        ("/v1/chat/completions", {"model": f"extractive@{space}", "messages": turns}),
        ("/v1/responses", {"model": f"extractive@{space}", "input": turns}),
        ("/v1/responses", {"model": "extractive", "input": turns, "tools": tools}),
        ("/v1/documents", {"namespace": space, "documents": FILES}),
        ("/mcp", {**CALL, "method": "resources/read", "params": {"uri": uri}}),
    ]
    for name in TOOLS:
        for more in ({"namespace": space}, {"doc_id": doc}, {"uuid": uuid}, {"id": uuid}):
            params = {"name": name, "arguments": {"query": question, "text": question, **more}}
            bodies.append(("/mcp", {**CALL, "params": params}))
    headers = {"X-Api-Key": "acme", "Content-Type": "application/json"}
    for path, body in bodies:
        yield Sent("POST", path, json.dumps(body).encode(), headers)
    for path in ("?namespace={0}", "/{1}?namespace={0}", "/{1}/pages/1?namespace={0}", "/{1}"):
        yield Sent("GET", "/v1/documents" + path.format(space, doc), b"", headers)
    yield Sent("DELETE", f"/v1/documents/{doc}?namespace={space}", b"", headers)
    yield Sent("GET", f"/v1/models/extractive@{space}", b"", headers)


def send(base: str, request: Sent) -> Sent:
    """Send a request and add its reply."""
    accepted = {"Accept": "application/json, text/event-stream"} if request.path == "/mcp" else {}
    headers = {name: content.encode() for name, content in (accepted | request.headers).items()}
    try:
        reply = httpx.request(
            request.method, base + request.path, content=request.body, headers=headers, timeout=90
        )
    except httpx.HTTPError as error:
        return request._replace(text=repr(error))
    return request._replace(status=reply.status_code, text=reply.text)


def stored(home: Path) -> dict[str, str]:
    """Load the demo and two tenants; return the settings of a server with keys."""
    url, keys = f"sqlite:///{home}/store.sqlite", home / "keys.json"
    settings = {"DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url, "DOCSTOKG_NAMES": "rule"}
    program = [sys.executable, "-m", "docstokg_local.cli.commands"]
    commands = [["demo"]]
    for space, word in (("acme", "quokka"), ("birch", SECRET)):
        text = f"The vault report says that the {word} keeps the vault code."
        row = {"id": "c1", "doc_id": f"{space}-doc", "title": "Vault report", "text": text}
        file = home / f"chunks_{space}.jsonl"
        file.write_text(json.dumps(row))
        commands.append(["load", str(file), "--namespace", space, "--no-embed"])
    for command in commands:
        subprocess.run(
            [*program, *command], env=os.environ | settings, check=True, stdout=subprocess.DEVNULL
        )
    granted = {"all": ["*"], "acme": ["acme"]}
    holders = {key: {"sub": key, "namespaces": names} for key, names in granted.items()}
    keys.write_text(json.dumps(holders))
    settings["DOCSTOKG_GRAPH_BUDGET_PER_MINUTE"] = "9999"
    return settings | {"DOCSTOKG_AUTH": "keys", "DOCSTOKG_KEYS_FILE": str(keys)}


def main() -> int:
    """Send all; return 1 for a failure or a leak."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else count * 3 // 10
    chance, probes, leaks = random.Random(seed), Counter[int](), []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        server = Server(stored(Path(folder)), 2)
        base = f"http://127.0.0.1:{server.port}"
        try:
            schemas = httpx.get(f"{base}/openapi.json").json()["components"]["schemas"]
            fields = sorted(
                {name for schema in schemas.values() for name in schema.get("properties", {})}
            )
            generated = requests(chance, count, fields)
            replies = list(pool.map(lambda request: send(base, request), generated))
            while probes.total() < wanted:
                number = chance.random()
                foreign, missing = (targets(random.Random(number), n) for n in ("birch", "nobody"))
                for pair in zip(foreign, missing, strict=True):
                    first, second = pool.map(lambda request: send(base, request), pair)
                    probes.update((first.status, second.status))
                    if SECRET in first.text or first.status != second.status:
                        leaks.append(first)
        finally:
            server.close()
    failed = [
        reply
        for reply in replies
        if not 200 <= reply.status < 500 and "overloaded" not in reply.text
    ]
    for reply in (*failed, *leaks):
        print(*reply._replace(body=reply.body[:600], text=reply.text[:300]))
    statuses = Counter(reply.status for reply in replies)
    print(f"{count} mutated: {dict(sorted(statuses.items()))}; {len(failed)} failed")
    print(f"{probes.total()} probes: {dict(sorted(probes.items()))}; {len(leaks)} leaks")
    return 1 if failed or leaks else 0


if __name__ == "__main__":
    sys.exit(main())
