"""JSON POST."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import urllib3
from pydantic import TypeAdapter, ValidationError

from docstokg.adapters.breaker import Breaker
from docstokg.adapters.exchange import host_of, read_within, refusal, send
from docstokg.adapters.signing import Signer
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import DocsToKGError, Timeout, WrongAnswer

# Maximum bytes of a response, for vectors; other users of an `Endpoint` allow less.
LONGEST_ANSWER = 64 * 1024 * 1024
# Of the remaining time, for every endpoint that has a successor.
FIRST_SHARE = 0.6
JSON, EVENTS = "application/json", "text/event-stream"

# A bearer key, or the role of the process.
type Credential = str | Signer | None


class Endpoint:
    """An address with its circuit: after five consecutive failures nothing is sent for 30 s."""

    def __init__(
        self,
        url: str,
        api_key: Credential,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int = LONGEST_ANSWER,
        whom: str | None = None,
        counts: tuple[type[DocsToKGError], ...] = (DocsToKGError,),
    ) -> None:
        """`max_bytes`: maximum size of the response, decompressed. `whom`: its name in messages.

        `counts`: errors that count as failures.
        """
        self.url, self._whom, self._api_key, self._most = (
            url,
            whom or host_of(url),
            api_key,
            max_bytes,
        )
        self._breaker = Breaker(self._whom, counts=counts, clock=clock)

    def post[Answer](
        self,
        payload: Mapping[str, Any],
        deadline: Deadline,
        parse: Callable[[Any], Answer],
        read_events: Callable[[Iterator[bytes]], Answer] | None = None,
    ) -> Answer:
        """Send, and return the result of `parse` on the parsed JSON, within `deadline`.

        `read_events`: reads an event stream. Raises `CircuitOpen`, the errors of `refusal` and
        `read_within`, and `WrongAnswer` (not JSON, or by `parse`).
        """
        if deadline.is_over():
            raise Timeout(f"no time was left to ask {self._whom}")
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass")
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}" if read_events else JSON}
        if isinstance(self._api_key, Signer):
            self._api_key("POST", self.url, body, headers)
        elif self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"

        def answered(response: urllib3.BaseHTTPResponse, blocks: Iterator[bytes]) -> Answer:
            if response.status != HTTPStatus.OK:
                raise refusal(self._whom, response.status)
            if read_events and EVENTS in response.headers.get("content-type", ""):
                return read_events(blocks)
            return parse(parsed(b"".join(blocks), self._whom))

        def request() -> urllib3.BaseHTTPResponse:
            return send("POST", self.url, deadline, headers, body)

        return self._breaker.call(
            lambda: read_within(request, self._whom, deadline, self._most, answered), deadline
        )


def checked[Shape](shape: type[Shape] | TypeAdapter[Shape], answer: Any, model: str) -> Shape:
    """Return a response validated as `shape`, strictly; raise `WrongAnswer` without its content.

    `model`: name for the error message.
    """
    adapter = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
    try:
        return adapter.validate_python(answer, strict=True)
    except ValidationError as broken:
        first = broken.errors(include_input=False)[0]
        raise WrongAnswer(f"{model}: {first['loc']}: {first['msg']}") from None


def first_that_answers[Answer](
    endpoints: list[Endpoint],
    payload: Mapping[str, Any],
    parse: Callable[[Any], Answer],
    deadline: Deadline,
) -> Answer:
    """Call endpoints in order until `parse` accepts a response; raise the last error if none does.

    Each but the last gets 60 % of the remaining time.
    """
    error: DocsToKGError = Timeout("no time was left to ask anyone")
    for position, endpoint in enumerate(endpoints):
        if deadline.is_over():
            break
        limit = deadline if position == len(endpoints) - 1 else deadline.share(FIRST_SHARE)
        try:
            return endpoint.post(payload, limit, parse)
        except DocsToKGError as exc:
            error = exc
    raise error
