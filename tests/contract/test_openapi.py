"""The published contract equals the generated and the served one, and holds for any input."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate as validate_openapi
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from docstokg.contracts.chat import ErrorReply
from docstokg.contracts.response import Problem
from docstokg_local.server import openapi
from docstokg_local.server.jobs import lock_of
from docstokg_local.server.lease import Lease
from docstokg_local.server.openapi import document_text
from docstokg_local.server.pages import page_routes
from tests.builders import settings_at
from tests.conftest import copy_of, started

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
NOT_IN_THE_CONTRACT = {"/metrics", "/"}
PAGE = {route.path for route in page_routes()}
"""Files for a browser, each named in the page itself; the contract describes the API."""
POSTS = sorted(path for path, item in openapi.document()["paths"].items() if "post" in item)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
UNHURRIED = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture(scope="module")
def app(small_store, cache_dir, models, tmp_path_factory):
    """The real application over a copy of the small store, once for the module.

    Its queue has a worker already, which does nothing: what is sent here stays queued.
    """
    store = copy_of(small_store, tmp_path_factory.mktemp("contract"))
    lease = Lease(lock_of(store.with_name("store.sqlite.jobs")))
    assert lease.acquire()
    chosen = settings_at(store, cache_dir=str(cache_dir), models=("extractive",))
    with closing(lease), started(chosen, models) as app:
        yield app


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_the_published_document_is_the_generated_one() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == document_text(), "run `make openapi`"
    validate_openapi(json.loads(document_text()))


def named(node: Any) -> list[tuple[str, Any]]:
    """Give every property and parameter of a document, at any depth."""
    if isinstance(node, list):
        return [field for item in node for field in named(item)]
    if not isinstance(node, dict):
        return []
    fields = [*node.get("properties", {}).items()] if "type" in node else []
    parameters = [(item["name"], item) for item in node.get("parameters", ())]
    return [*fields, *parameters, *(field for item in node.values() for field in named(item))]


def test_every_field_has_a_description() -> None:
    fields = named(json.loads(PUBLISHED.read_text("utf-8")))
    assert len(fields) > 440
    assert not [name for name, field in fields if not field.get("description")]


def test_the_served_document_is_the_published_one(client) -> None:
    assert client.get("/openapi.json").json() == json.loads(PUBLISHED.read_text("utf-8"))


def test_the_served_contract_is_the_published_file(app) -> None:
    published = {
        (path, method.upper())
        for path, item in openapi.document()["paths"].items()
        for method in item
    }
    served = {
        (route.path.replace(":path}", "}"), method)
        for route in app.routes
        if route.path not in {*NOT_IN_THE_CONTRACT, *PAGE}
        for method in route.methods - {"HEAD"}
    }
    assert served == published


@given(
    path=st.sampled_from(
        ["/v2/answer", "/v1", "/v1/answer/", "/V1/answer", "/docs/", "/v1/answer/x"]
    )
    | st.text("abc/._-%20", min_size=1, max_size=20).map("/x".__add__),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
)
@settings(UNHURRIED, max_examples=20)
def test_every_other_path_is_404(client, path, method) -> None:
    response = client.request(method, path, follow_redirects=False)
    assert response.status_code == 404
    if path.startswith("/v1/"):
        code = ErrorReply.model_validate_json(response.content).error.code
    else:
        assert response.headers["content-type"] == "application/problem+json"
        code = Problem.model_validate_json(response.content).code
    assert code == "not_found"


@pytest.mark.parametrize("path", [path for path in POSTS if path != "/v1/documents"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_every_other_method_is_405(client, path, method) -> None:
    response = client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if path in ("/v1/chat/completions", "/v1/responses"):
        code = ErrorReply.model_validate_json(response.content).error.code
    else:
        code = Problem.model_validate_json(response.content).code
    assert code == "method_not_allowed"


@pytest.fixture(scope="module")
def schema(app):
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        *((path, "POST") for path in POSTS),
        ("/v1/health", "GET"),
        ("/openapi.json", "GET"),
        ("/v1/namespaces", "GET"),
        ("/v1/documents", "GET"),
        ("/v1/documents/{doc_id}", "DELETE"),
        ("/v1/jobs/{id}", "GET"),
    ],
)
def test_every_allowed_request_is_answered_by_the_contract(schema, path, method) -> None:
    operation = schema[path][method]
    is_single = path in ("/v1/health", "/openapi.json", "/v1/namespaces")

    @given(case=operation.as_strategy())
    @settings(UNHURRIED, max_examples=1 if is_single else 8)
    def holds(case: schemathesis.Case) -> None:
        case.validate_response(case.call(), checks=CHECKS)

    holds()


@pytest.mark.parametrize("path", [path for path in POSTS if path != "/mcp"])
def test_every_forbidden_request_is_refused_by_the_contract(schema, path) -> None:
    operation = schema[path]["POST"]

    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    @settings(UNHURRIED, max_examples=8)
    def holds(case: schemathesis.Case) -> None:
        response = case.call()
        case.validate_response(response, checks=CHECKS)
        assert response.status_code in (400, 413, 415), case

    holds()


# Values that break the rule of one place, whatever else the request holds.
NO_TEXT = st.sampled_from([None, 3, 3.5, True, [], {}])
NO_INTEGER = st.sampled_from(["3", 3.5, True, [], {}])
NO_BOOLEAN = st.sampled_from(["true", 0, 1, None, []])
WRONG: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("query",): NO_TEXT | st.sampled_from(["", "ab", "  a ", "x" * 4097, "abc\0def"]),
    ("top_k",): NO_INTEGER | st.sampled_from([0, -1, 101, None]),
    ("namespace",): st.sampled_from([3, True, [], "", "UPPER", "-a", "a" * 64, "a b", "ä"]),
    ("verbosity",): NO_TEXT | st.sampled_from(["", "loud"]),
    ("diagnostics",): NO_BOOLEAN,
    ("cache_key",): st.sampled_from([3, True, "", "k" * 129, []]),
    ("filter",): st.sampled_from([3, "x", [], {f"k{n}": 1 for n in range(21)}]),
    ("budget", "max_chunks"): NO_INTEGER | st.sampled_from([0, 101, None]),
    ("budget", "max_tokens_context"): NO_INTEGER | st.sampled_from([255, 32001]),
    ("budget", "timeout_s"): st.sampled_from(["1", None, True, 0.5, 61]),
    ("kg_expansion", "enabled"): NO_BOOLEAN,
    ("kg_expansion", "hops"): NO_INTEGER | st.sampled_from([0, 4]),
    ("kg_expansion", "limit"): NO_INTEGER | st.sampled_from([-1, 101]),
    ("kg_expansion", "seeds"): st.sampled_from(["HP:1", 3, None, ["x"] * 51]),
    ("kg_expansion", "route"): NO_BOOLEAN,
    ("providers", "embedding"): NO_TEXT | st.just("cohere"),
    ("providers", "reranker"): NO_TEXT | st.just("hf"),
    ("nonsense",): st.integers() | st.text(max_size=5) | st.none(),
    ("budget", "nonsense"): st.integers(),
}
ONLY_ANSWER: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("budget", "max_tokens_gen"): NO_INTEGER | st.sampled_from([-1, 4097]),
    ("synthesis", "enabled"): NO_BOOLEAN,
    ("synthesis", "temperature"): st.sampled_from(["1", -0.1, 2.1, None]),
    ("synthesis", "model"): NO_TEXT | st.sampled_from(["", "gpt-9"]),
    ("synthesis", "system_prompt"): st.sampled_from([3, "x" * 2001, []]),
}


@st.composite
def malformed(draw: st.DrawFn) -> tuple[str, bytes, set[str]]:
    """Give a route, a body that breaks one rule to six, and the paths that have to be named."""
    route = draw(st.sampled_from(["answer", "search"]))
    wrong = WRONG | (ONLY_ANSWER if route == "answer" else {})
    places = draw(st.lists(st.sampled_from(sorted(wrong)), min_size=1, max_size=6, unique=True))
    body: dict[str, Any] = {"query": "What is it?"}
    for place in places:
        *above, last = place
        holder = body
        for name in above:
            holder = holder.setdefault(name, {})
        holder[last] = draw(wrong[place])
    return route, json.dumps(body).encode(), {"$." + ".".join(place) for place in places}


def is_object(body: bytes) -> bool:
    """Tell whether bytes drawn at random happen to be a JSON object, which may be a request."""
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


NO_REQUEST = (
    st.binary(max_size=60).filter(lambda body: not is_object(body))
    | st.sampled_from([b"", b"null", b"[]", b"3", b'"text"', b"{", b'{"query": "abc"', b"[" * 9999])
    | st.sampled_from([b'{"query": "abc", "top_k": NaN}', b'{"query": "\\ud800abc"}', b"\xff{}"])
)


def errors_of(client, route: str, body: bytes) -> set[str]:
    """Return the places of the errors for which a body is refused."""
    response = client.post(
        f"/v1/{route}", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400, body
    assert response.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate_json(response.content)
    assert problem.code == "invalid_request"
    return {error.path for error in problem.errors}


@given(malformed())
@settings(UNHURRIED, max_examples=200)
def test_malformed_requests_are_told_all_their_errors(client, request_case) -> None:
    route, body, paths = request_case
    assert errors_of(client, route, body) >= paths


@given(st.sampled_from(["answer", "search", "check"]), NO_REQUEST)
@settings(UNHURRIED, max_examples=60)
def test_bodies_that_are_not_requests_are_refused(client, route, body) -> None:
    assert errors_of(client, route, body)
