"""One OpenSearch address: credentials, total limits, and the vendor's errors in our words."""

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Literal, Required, TypedDict, Unpack

import urllib3.connection
from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth, Urllib3HttpConnection
from opensearchpy import exceptions as vendor

from docstokg.adapters.opensearch.layout import Json, index_behind
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

CONNECTIONS = 8
for name in ("opensearch", "urllib3"):
    logging.getLogger(name).addHandler(logging.NullHandler())  # what they tell is raised as well

# The most specific vendor error wins; `ConnectionTimeout` is a `ConnectionError` there.
TRANSLATION: tuple[tuple[type[Exception], type[DocsToKGError], str], ...] = (
    (vendor.ConnectionTimeout, Timeout, "did not answer in time"),
    (vendor.ConnectionError, Unavailable, "could not be reached, or broke off"),
    (vendor.AuthenticationException, Refused, "refused the credentials"),
    (vendor.AuthorizationException, Misconfigured, "does not allow this with these credentials"),
    (vendor.SerializationError, WrongAnswer, "sent something that is not JSON"),
)


class Connection(TypedDict, total=False):
    """Where a server is and how it wants to be spoken to; readers and writers take the same."""

    url: Required[str]
    auth: Auth
    user: str | None
    password: str | None


class Server:
    """One OpenSearch address; every call ends at its total limit, whatever the server sends.

    The vendor's own limit is between two bytes, so a dripping answer would never end. Calls run
    in a worker; when the limit passes, the socket in use is shut down, which ends the worker too.
    """

    def __init__(self, **at: Unpack[Connection]) -> None:
        self._client = OpenSearch(
            hosts=[at["url"]],
            http_auth=_credentials(at),
            connection_class=_AbortableConnection,
            pool_maxsize=CONNECTIONS,
            max_retries=0,
            http_compress=at["url"].startswith("https"),
        )
        self._workers = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="opensearch")

    def call(  # noqa: PLR0913 - one call, told by name
        self,
        method: str,
        path: str,
        body: str | Json | None = None,
        params: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        absent_is_none: bool = False,
        answered: int | None = None,
    ) -> Json:
        """Make one request and give the JSON object; `{}` for a 404 when that is an answer.

        `body`: an object, or text of several, a line each. `answered`: another status that is an
        answer and no error.
        """
        if timeout_s <= 0:
            raise Timeout("no time left to ask OpenSearch")
        own = _CallSocket()
        asked_for: Json = {**(params or {}), "request_timeout": timeout_s}
        if absent_is_none or answered is not None:
            asked_for["ignore"] = 404 if answered is None else answered
        text = json.dumps(body) if isinstance(body, dict) else body
        content = None if text is None else text.encode("utf-8")

        def perform() -> Any:
            _current.call = own
            return self._client.transport.perform_request(
                method, path, params=asked_for, body=content
            )

        future: Future[Any] = self._workers.submit(perform)
        try:
            answer = future.result(timeout_s)
        except FutureTimeout:
            future.cancel()
            own.cut()
            raise Timeout(f"OpenSearch did not answer in {timeout_s:.3f} s") from None
        except vendor.OpenSearchException as exc:
            raise _translated(exc) from exc
        if not isinstance(answer, dict):
            raise WrongAnswer(f"OpenSearch answered {path} with something that is no object")
        return {} if absent_is_none and answer.get("status") == 404 else answer

    def close(self) -> None:
        """Give the connections back; calls under way end at their limits."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._client.close()


def index_notes(server: Server, name: str, timeout_s: float) -> Json | None:
    """Read what we noted in the mapping; None when the index does not exist.

    Raises `Misconfigured` for an index that is not ours, so that it is never touched.
    """
    answer = server.call("GET", f"/{name}/_mapping", timeout_s=timeout_s, absent_is_none=True)
    if not answer:
        return None
    with schema_checked("_mapping"):
        notes: Json = answer[index_behind(answer)]["mappings"].get("_meta", {})
    if notes.get("docstokg") is None:
        raise Misconfigured(f"index {name!r} was not made by DocsToKG; choose another name")
    return notes


def pages(call: Callable[..., Json], path: str, body: Json) -> Iterator[Json]:
    """Give the answers of a sorted search, a page of `size` at a time."""
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
    """Give those of an `_mget` that are stored, each with its `_source`.

    A shard that does not answer makes an error of a document: to take it for one that is not
    stored would write it anew and lose what is noted with it. `Unavailable` then.
    """
    there: list[Json] = []
    with schema_checked("_mget"):
        for document in answer["docs"]:
            error = document.get("error")
            if error is not None and error["type"] != "index_not_found_exception":
                raise Unavailable(f"OpenSearch could not read a document: {error_text(error)}")
            if document.get("found"):
                there.append(document)
    return there


@contextlib.contextmanager
def schema_checked(what: str) -> Iterator[None]:
    """Turn an answer of another shape into `WrongAnswer`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        raise WrongAnswer(f"OpenSearch answered {what} in an unknown shape: {exc!r}") from exc


class _CallSocket:
    """The socket one call uses, so that another thread can cut it, now or when it is there."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._is_cut = False

    def uses(self, sock: socket.socket | None) -> None:
        self._socket = sock
        if self._is_cut:
            self.cut()

    def cut(self) -> None:
        self._is_cut = True  # before the look: `uses` looks after it has set its socket
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


_current = threading.local()  # the `_CallSocket` of the call that runs in this worker


class _PlainConnection(urllib3.connection.HTTPConnection):
    """Says which socket it uses: when new, and when taken from the pool."""

    def connect(self) -> None:
        super().connect()
        _current.call.uses(self.sock)

    def request(self, *arguments: Any, **options: Any) -> None:
        _current.call.uses(self.sock)
        super().request(*arguments, **options)


class _TlsConnection(_PlainConnection, urllib3.connection.HTTPSConnection):
    """The same over TLS."""


class _AbortableConnection(Urllib3HttpConnection):  # type: ignore[misc]
    """The vendor's connection over sockets that can be cut."""

    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool.ConnectionCls = _TlsConnection if self.use_ssl else _PlainConnection


def _credentials(at: Connection) -> object | None:
    auth = at.get("auth", "basic")
    if auth == "basic":
        user = at.get("user")
        return (user, at.get("password") or "") if user else None
    import boto3  # only signed deployments carry it

    session = boto3.Session()
    credentials = session.get_credentials()
    if credentials is None or session.region_name is None:
        raise Misconfigured("SigV4 needs AWS credentials and AWS_DEFAULT_REGION")
    service = auth.removeprefix("sigv4-")
    signer: object = Urllib3AWSV4SignerAuth(credentials, session.region_name, service)
    return signer


def error_text(error: Json) -> str:
    """Give the type and the reason of an error object, as the server's answers hold them."""
    return f"{error.get('type')}: {str(error.get('reason'))[:200]}"


def _reason(exc: vendor.TransportError) -> str:
    error = exc.info.get("error") if isinstance(exc.info, dict) else None
    reason = error.get("reason") if isinstance(error, dict) else error
    return str(reason or exc.error)[:200]


def _translated(exc: Exception) -> DocsToKGError:
    for vendor_error, error_class, message in TRANSLATION:
        if isinstance(exc, vendor_error):
            return error_class(f"OpenSearch {message}")
    if isinstance(exc, vendor.TransportError) and isinstance(exc.status_code, int):
        message = f"OpenSearch answered {exc.status_code}: {_reason(exc)}"
        if exc.status_code == 429:
            return QuotaExceeded(message)
        return Unavailable(message) if exc.status_code >= 500 else WrongAnswer(message)
    return WrongAnswer(f"OpenSearch client failed: {type(exc).__name__}")
