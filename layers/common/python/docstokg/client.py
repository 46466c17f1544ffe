"""Python client of the HTTP API.

    with Client("http://127.0.0.1:8080") as rag:
        response = rag.answer("What is a seizure?", synthesis={"enabled": True,
                              "model": "extractive"}, budget={"max_tokens_gen": 300})
        print(response.answer, [citation.uuid for citation in response.citations])

`AsyncClient` has the same methods as coroutines.
"""

import asyncio
import json
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import update_wrapper
from http import HTTPStatus
from typing import Any, Concatenate, Self, Unpack
from urllib.parse import quote, urlencode

import urllib3
from pydantic import BaseModel, ValidationError

from docstokg import __version__
from docstokg.adapters.exchange import UNREAD, NeverSent, exchanged, host_of
from docstokg.contracts import Json
from docstokg.contracts.check import CheckRequest, CheckResponse
from docstokg.contracts.documents import DocumentPage, DocumentsRequest, Job, JobAccepted
from docstokg.contracts.fields import AnswerFields, SearchFields
from docstokg.contracts.health import Health
from docstokg.contracts.request import RAGRequest, SearchRequest
from docstokg.contracts.response import Problem, RAGResponse
from docstokg.contracts.routes import Route, RouteName, route_of
from docstokg.contracts.traverse import TraverseRequest, TraverseResponse
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout, WrongAnswer

TIMEOUT_S = 15.0
RETRIES = 2
# Seconds of a request for the network, in addition to the server's deadline.
_MARGIN_S = 0.4
_BUDGET_S = (1.0, 60.0)
_FIRST_PAUSE_S = 0.2
_TOO_MANY = 429
_LONGEST_REPLY = 64 * 1024 * 1024
_CONNECTIONS = 8
# After a longer pause a new connection is opened, since the server may be closing the old one.
_IDLE_S = 2.0


class ProblemError(DocsToKGError):
    """The server refused or failed; `problem` is its reply, with field errors by JSON path."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        detail = "; ".join(f"{error.path}: {error.message}" for error in problem.errors)
        super().__init__(f"{problem.status} {problem.code}: {problem.detail} {detail}".strip())
        self.problem = problem
        self.status = problem.status
        self.retry_after_s = retry_after_s


class Client:
    """Client of one server; thread-safe. It keeps connections until `close`.

    `timeout_s` limits each call including retries; the remaining time becomes `budget.timeout_s`
    unless the request sets it. A call is retried at most `retries` times if nothing was executed:
    connection refused, 429, or 503 with Retry-After.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        self._host, self._base = host_of(url), url.rstrip("/")
        self._lock, self._used = threading.Lock(), 0.0
        self._pool = urllib3.PoolManager(_CONNECTIONS, maxsize=_CONNECTIONS, retries=False)
        self._timeout_s, self._retries = timeout_s, retries
        self._headers = {
            "Accept-Encoding": "gzip",
            "Content-Type": "application/json",
            "User-Agent": f"docstokg-client/{__version__}",
        } | ({} if api_key is None else {"Authorization": f"Bearer {api_key}"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a later call opens a new one."""
        self._pool.clear()

    def answer(
        self,
        /,
        query: str | RAGRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[AnswerFields],
    ) -> RAGResponse:
        """Call `POST /v1/answer`; `fields` of RAGRequest override those of `query`.

        Raise ValidationError, ProblemError, Timeout, Unavailable or WrongAnswer, as all methods do.
        """
        body = _request_body(RAGRequest, query, fields)
        return self._call("answer", RAGResponse, body, timeout_s)

    def search(
        self,
        /,
        query: str | SearchRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[SearchFields],
    ) -> RAGResponse:
        """Call `POST /v1/search`: evidence without an answer; fields and errors as in `answer`."""
        body = _request_body(SearchRequest, query, fields)
        return self._call("search", RAGResponse, body, timeout_s)

    def check(self, request: CheckRequest, *, timeout_s: float | None = None) -> CheckResponse:
        """Call `POST /v1/check`: a draft against sources and graph; errors as in `answer`."""
        return self._call("check", CheckResponse, _body(request), timeout_s)

    def traverse(
        self, request: TraverseRequest, *, timeout_s: float | None = None
    ) -> TraverseResponse:
        """Call `POST /v1/traverse`: a walk from given nodes; errors as in `answer`."""
        return self._call("traverse", TraverseResponse, _body(request), timeout_s)

    def health(self, *, timeout_s: float | None = None) -> Health:
        """Call `GET /v1/health`; an unhealthy service is not an error; others as in `answer`."""
        return self._call("health", Health, None, timeout_s)

    def load(self, request: DocumentsRequest, *, timeout_s: float | None = None) -> JobAccepted:
        """Call `POST /v1/documents`: queue documents (state: see `job`); errors as in `answer`."""
        return self._call("load", JobAccepted, _body(request), timeout_s)

    def documents(
        self,
        namespace: str = "default",
        cursor: str | None = None,
        *,
        timeout_s: float | None = None,
    ) -> DocumentPage:
        """Call `GET /v1/documents`: a page of loaded documents with the `cursor` of the next.

        Errors as in `answer`.
        """
        parameters = {"namespace": namespace} | ({} if cursor is None else {"cursor": cursor})
        return self._call("documents", DocumentPage, None, timeout_s, parameters)

    def delete(
        self, doc_id: str, namespace: str = "default", *, timeout_s: float | None = None
    ) -> JobAccepted:
        """Call `DELETE /v1/documents/{doc_id}`: queue a removal; errors as in `answer`."""
        parameters = {"doc_id": doc_id, "namespace": namespace}
        return self._call("delete", JobAccepted, None, timeout_s, parameters)

    def job(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Call `GET /v1/jobs/{id}`: the state of a load or removal; errors as in `answer`."""
        return self._call("job", Job, None, timeout_s, {"id": job_id})

    def cancel(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Call `DELETE /v1/jobs/{id}`: return it as failed, or, if ended before, as it is.

        Loaded documents stay; errors as in `answer`.
        """
        return self._call("cancel", Job, None, timeout_s, {"id": job_id})

    def _call[Reply: BaseModel](
        self,
        route: RouteName,
        expected: type[Reply],
        body: Json | None,
        timeout_s: float | None,
        parameters: Mapping[str, str] | None = None,
    ) -> Reply:
        allowed = self._timeout_s if timeout_s is None else timeout_s
        deadline = Deadline.after(allowed)
        method, path = route_of(route).method, _path(route_of(route), parameters or {})
        for attempt in range(self._retries + 1):
            if deadline.is_over():
                break
            payload = body
            if body is not None and expected is RAGResponse:
                payload = _within_budget(body, deadline.remaining())
            try:
                return self._exchanged(method, path, expected, payload, deadline)
            except (NeverSent, ProblemError) as exc:
                pause = _pause(exc, attempt)
                if pause is None or attempt == self._retries or pause >= deadline.remaining():
                    raise
                time.sleep(pause)
        raise Timeout(f"No reply within {allowed:g} s")

    def _exchanged[Reply: BaseModel](
        self,
        method: str,
        path: str,
        expected: type[Reply],
        body: Json | None,
        deadline: Deadline,
    ) -> Reply:
        text = None if body is None else json.dumps(body, ensure_ascii=False)
        sent = None if text is None else text.encode("utf-8", "surrogatepass")
        options = {"headers": self._headers, "timeout": deadline.remaining(), **UNREAD}
        status, headers, data = exchanged(
            lambda: self._connections().request(method, self._base + path, body=sent, **options),
            self._host,
            deadline,
            _LONGEST_REPLY,
        )
        try:
            # A newer server may send fields that this client does not know.
            is_unhealthy = expected is Health and status == HTTPStatus.SERVICE_UNAVAILABLE
            if status in (HTTPStatus.OK, HTTPStatus.ACCEPTED) or is_unhealthy:
                return expected.model_validate_json(data, extra="ignore")
            problem = Problem.model_validate_json(data, extra="ignore")
        except ValidationError as exc:
            raise WrongAnswer(f"status {status}, and no reply of this API") from exc
        raise ProblemError(problem, _seconds(headers.get("retry-after")))

    def _connections(self) -> urllib3.PoolManager:
        with self._lock:
            if time.monotonic() - self._used > _IDLE_S:
                self._pool = urllib3.PoolManager(_CONNECTIONS, maxsize=_CONNECTIONS, retries=False)
            self._used = time.monotonic()
            return self._pool


def _coroutine[**P, Reply](
    method: Callable[Concatenate[Client, P], Reply],
) -> Callable[Concatenate["AsyncClient", P], Awaitable[Reply]]:
    async def call(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        return await asyncio.to_thread(method, self.client, *args, **kwargs)

    update_wrapper(call, method)
    return call


class AsyncClient:
    """Client with coroutines; the thread of a cancelled one runs until the call's deadline."""

    def __init__(self, url: str = "http://127.0.0.1:8080", **options: Any) -> None:
        self.client = Client(url, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    answer = _coroutine(Client.answer)
    search = _coroutine(Client.search)
    check = _coroutine(Client.check)
    traverse = _coroutine(Client.traverse)
    health = _coroutine(Client.health)
    load = _coroutine(Client.load)
    documents = _coroutine(Client.documents)
    delete = _coroutine(Client.delete)
    job = _coroutine(Client.job)
    cancel = _coroutine(Client.cancel)
    close = _coroutine(Client.close)


def anthropic_blocks(response: RAGResponse) -> list[Json]:
    """Return the answer as text blocks with `char_location` citations, like Anthropic's API.

    `document_index` counts the response's documents from 0. Offsets count in the document, or in
    the passage if its `offset_base` is `chunk`.
    """
    answer, report = response.answer, response.grounding
    places = [(citation.namespace, citation.doc_id) for citation in response.citations]
    indexes = {place: n for n, place in enumerate(dict.fromkeys(places))}
    locations = {
        citation.rank: {
            "type": "char_location",
            "cited_text": citation.snippet,
            "document_index": indexes[place],
            "document_title": citation.document_name or citation.doc_id,
            "start_char_index": citation.char_start,
            "end_char_index": citation.char_end,
        }
        for citation, place in zip(response.citations, places, strict=True)
    }
    blocks: list[Json] = []
    at = 0
    for sentence in report.sentences if report is not None else ():
        cited = [locations[rank] for rank in sentence.citations if rank in locations]
        blocks.append({"type": "text", "text": answer[at : sentence.start], "citations": []})
        text = answer[sentence.start : sentence.end]
        blocks.append({"type": "text", "text": text, "citations": cited})
        at = sentence.end
    blocks.append({"type": "text", "text": answer[at:], "citations": []})
    return [block for block in blocks if block["text"]]


def _path(route: Route, parameters: Mapping[str, str]) -> str:
    quoted = {name: quote(value, safe="") for name, value in parameters.items()}
    others = {name: value for name, value in parameters.items() if f"{{{name}}}" not in route.path}
    return route.path.format(**quoted) + (f"?{urlencode(others)}" if others else "")


def _request_body(
    contract: type[BaseModel], query: str | BaseModel, fields: Mapping[str, Any]
) -> Json:
    if isinstance(query, BaseModel):
        return _body(
            type(query).model_validate(query.model_dump(exclude_unset=True) | dict(fields))
        )
    return _body(contract.model_validate({"query": query, **fields}))


def _body(request: BaseModel) -> Json:
    return request.model_dump(mode="json", exclude_unset=True)


def _within_budget(body: Json, left_s: float) -> Json:
    budget = body.get("budget", {})
    if "timeout_s" in budget:
        return body
    low, high = _BUDGET_S
    timeout_s = round(min(high, max(low, left_s - _MARGIN_S)), 3)
    return {**body, "budget": {**budget, "timeout_s": timeout_s}}


def _pause(failed: NeverSent | ProblemError, attempt: int) -> float | None:
    backoff = _FIRST_PAUSE_S * 2.0**attempt * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
    if isinstance(failed, NeverSent):
        return backoff
    if failed.status == _TOO_MANY:
        return failed.retry_after_s or backoff
    # Retry-After means that nothing was executed; a bare 503 is a result.
    return failed.retry_after_s if failed.status == HTTPStatus.SERVICE_UNAVAILABLE else None


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None
