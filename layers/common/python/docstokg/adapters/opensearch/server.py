"""OpenSearch client."""

import contextlib
import gzip
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Required, TypedDict, Unpack
from urllib.parse import urlencode

import urllib3

from docstokg.adapters.exchange import UNREAD, exchanged, host_of
from docstokg.adapters.opensearch.layout import Json, Shards, index_behind
from docstokg.adapters.signing import Signer
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Refused,
    Timeout,
    Unavailable,
    WrongAnswer,
)

Auth = Literal["basic", "sigv4-es", "sigv4-aoss"]
type Headers = dict[str, str]

CONNECTIONS = 8
SHARDS_S, SHARDS_POLL_S = 30.0, 0.2
# Maximum bytes of an answer; a page of an export is the largest.
LONGEST_ANSWER = 1 << 28
logging.getLogger("urllib3").addHandler(logging.NullHandler())  # errors are raised as well


class Connection(TypedDict, total=False):
    """Address and credentials of a server, and the layout of new indices."""

    url: Required[str]
    auth: Auth
    user: str | None
    password: str | None
    shards: tuple[int, int | None]


class Server:
    """One OpenSearch address."""

    def __init__(self, **at: Unpack[Connection]) -> None:
        host_of(at["url"])
        self._url = at["url"].rstrip("/")
        self.shards = Shards(*at.get("shards", ()))
        self._headers = {"Content-Type": "application/json"}
        if self._url.startswith("https"):
            self._headers |= urllib3.make_headers(accept_encoding="gzip")
        self._sign = _signing(at, self._headers)
        self._pool = urllib3.PoolManager(maxsize=CONNECTIONS, retries=False)

    def call(  # noqa: PLR0913 - one call, told by name
        self,
        method: str,
        path: str,
        body: str | Json | None = None,
        params: Mapping[str, str] | None = None,
        *,
        deadline: Deadline,
        absent_is_none: bool = False,
        answered: int | None = None,
    ) -> Json:
        """Make one request and return the JSON object; `{}` for a 404 if `absent_is_none`.

        `body`: an object, or text with one object per line. `answered`: another status that is not
        an error. Raises `Timeout`, `Refused` (401), `Misconfigured` (403), `QuotaExceeded` (429),
        `Unavailable` (5xx, connection) or `WrongAnswer`.
        """
        if deadline.is_over():
            raise Timeout("no time left to ask OpenSearch")
        text = json.dumps(body) if isinstance(body, dict) else body or ""
        content, headers = text.encode("utf-8"), dict(self._headers)
        if content and "accept-encoding" in headers:
            content, headers["Content-Encoding"] = gzip.compress(content), "gzip"
        url = f"{self._url}{path}" + (f"?{urlencode(params)}" if params else "")
        self._sign(method, url, content, headers)
        options = {
            "body": content or None,
            "headers": headers,
            "timeout": deadline.remaining(),
            **UNREAD,
        }
        status, _, data = exchanged(
            lambda: self._pool.request(method, url, **options),
            "OpenSearch",
            deadline,
            LONGEST_ANSWER,
        )
        allowed = answered or (404 if absent_is_none else None)
        if status >= 300 and status != allowed:
            raise _translated(status, data)
        answer = parsed(data, "OpenSearch")
        if not isinstance(answer, dict):
            raise WrongAnswer(f"OpenSearch answered {path} with something that is no object")
        return {} if absent_is_none and answer.get("status") == 404 else answer

    def close(self) -> None:
        """Close idle connections; active calls end at their limits."""
        self._pool.clear()


def limited(server: Server, limit_s: float, **fixed: Any) -> Callable[..., Json]:
    """Return `server.call` with a deadline of `limit_s` seconds per call, and `fixed` options."""

    def call(method: str, path: str, *arguments: Any, **options: Any) -> Json:
        limits = {"deadline": Deadline.after(limit_s)}
        return server.call(method, path, *arguments, **(limits | fixed | options))

    return call


def index_notes(server: Server, name: str, deadline: Deadline) -> Json | None:
    """Return our notes in the mapping; None if the index does not exist.

    `unfinished`: run_ids of open loads by namespace. Raises `Misconfigured` for an index that is
    not ours.
    """
    answer = server.call("GET", f"/{name}/_mapping", deadline=deadline, absent_is_none=True)
    if not answer:
        return None
    with schema_checked("_mapping"):
        notes: Json = answer[index_behind(answer)]["mappings"].get("_meta", {})
    if notes.get("docstokg") is None:
        raise Misconfigured(f"index {name!r} was not made by DocsToKG; choose another name")
    earlier = notes.pop("unfinished_load", None)
    notes["unfinished"] = {"": earlier} if earlier else notes.get("unfinished", {})
    return notes


def await_shards(server: Server, *aliases: str) -> None:
    """Wait until the shards of all indices that exist can be read.

    Raise `Unavailable` if they cannot within SHARDS_S.
    """
    deadline = Deadline.after(SHARDS_S)
    for alias in aliases:
        while not _is_readable(server, alias, deadline):
            time.sleep(SHARDS_POLL_S)


def _is_readable(server: Server, alias: str, deadline: Deadline) -> bool:
    try:
        answer = server.call(
            "POST",
            f"/{alias}/_search",
            {"size": 0},
            deadline=Deadline.after(SHARDS_S),
            absent_is_none=True,
        )
        if answer.get("_shards", {}).get("failed"):
            raise Unavailable(f"only a part of index {alias!r} can be read")
    except (Timeout, Unavailable) as exc:
        if deadline.is_over():
            raise Unavailable(
                f"index {alias!r} could not be read within {SHARDS_S:g} s: {exc}"
            ) from exc
        return False
    return True


def pages(call: Callable[..., Json], path: str, body: Json) -> Iterator[Json]:
    """Yield the answers of a sorted search, one page of `size` hits each."""
    after: Json = {}
    while True:
        answer = call("POST", path, {**body, **after})
        yield answer
        with schema_checked("_search"):
            hits = answer["hits"]["hits"]
            if len(hits) < body["size"]:
                return
            after = {"search_after": hits[-1]["sort"]}


def documents_there(answer: Json) -> list[Json]:
    """Return the stored documents of an `_mget`, each with its `_source`.

    Raises `Unavailable` if a shard failed.
    """
    documents: list[Json] = []
    with schema_checked("_mget"):
        for document in answer["docs"]:
            error = document.get("error")
            if error is not None and error["type"] != "index_not_found_exception":
                raise Unavailable(f"OpenSearch could not read a document: {error_text(error)}")
            if document.get("found"):
                documents.append(document)
    return documents


@contextlib.contextmanager
def schema_checked(subject: str) -> Iterator[None]:
    """Raise `WrongAnswer`, naming `subject`, for lookup, type and value errors of the block."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        raise WrongAnswer(f"OpenSearch answered {subject} in an unknown shape: {exc!r}") from exc


def _signing(at: Connection, headers: Headers) -> Callable[[str, str, bytes, Headers], None]:
    auth = at.get("auth", "basic")
    if auth == "basic":
        if user := at.get("user"):
            headers |= urllib3.make_headers(basic_auth=f"{user}:{at.get('password') or ''}")
        return lambda *_: None
    return Signer(auth.removeprefix("sigv4-"))


def error_text(error: Json) -> str:
    """Return "TYPE: REASON" of an error object, the reason cut at 200; a missing part is "None"."""
    return f"{error.get('type')}: {str(error.get('reason'))[:200]}"


def _translated(status: int, data: bytes) -> DocsToKGError:
    if status == 401:
        return Refused("OpenSearch refused the credentials")
    if status == 403:
        return Misconfigured("OpenSearch does not allow this with these credentials")
    try:
        error = json.loads(data)["error"]
        reason = error["reason"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = "no reason given"
    message = f"OpenSearch answered {status}: {str(reason)[:200]}"
    if status == 429:
        return QuotaExceeded(message)
    return Unavailable(message) if status >= 500 else WrongAnswer(message)
