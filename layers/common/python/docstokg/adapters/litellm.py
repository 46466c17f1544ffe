"""Models through litellm."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from docstokg.adapters.bounded import within
from docstokg.adapters.exchange import blocks, refusal, send, translated, wake
from docstokg.contracts.completion import ModelCall, ModelReply
from docstokg.contracts.language_models import ModelRoute
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import DocsToKGError, Misconfigured, NotInstalled, WrongAnswer

if TYPE_CHECKING:
    import httpx
    import urllib3

# Maximum bytes of a reply: litellm needs seconds of processor time per MB that it cannot read.
MOST_BYTES, MOST_STREAMED = 1 << 18, 1 << 21
# Headers that our client sets itself.
_OWN = {"accept-encoding", "connection", "content-length"}
MISSING = "the package {} is not installed (docstokg[llm])"

# Returns `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `aws_region_name`.
AwsKeys = Callable[[], Mapping[str, str | None]]


class LiteLlm:
    """Calls through litellm.

    `credentials`: called for every Bedrock request.
    """

    def __init__(self, credentials: AwsKeys | None = None) -> None:
        self._credentials = credentials

    def warm(self) -> None:
        """Import litellm and run it once offline; raise `NotInstalled` if it is missing."""
        messages = [{"role": "user", "content": "ready"}]
        self._vendor.completion(model="gpt-4o-mini", messages=messages, mock_response="ready")

    def generate(
        self,
        route: ModelRoute,
        call: ModelCall,
        whom: str,
        deadline: Deadline,
        write: Callable[[str], bool] | None,
    ) -> ModelReply:
        """Make one call within `deadline`, including the import.

        `write`: called with each streamed piece; False ends the call early. Raise `Timeout`,
        `NotInstalled`, the errors of `refusal`, `Unavailable` (unreachable, broken off),
        `WrongAnswer` (no completion, too long) or `Misconfigured` (litellm sends no call).
        """
        exchange = _Exchange(whom, deadline, is_streamed=write is not None)

        def complete() -> ModelReply:
            arguments = self._target(route) | call.arguments(is_streamed=write is not None)
            try:
                answer = self._vendor.completion(**arguments, client=exchange.handler())
                return _whole(answer) if write is None else _streamed(answer, write)
            except Exception as exc:
                if isinstance(exc, DocsToKGError):
                    raise
                kind = WrongAnswer if exchange.is_sent else Misconfigured
                failed = kind(f"{whom} answered something that is no completion")
                raise (exchange.error or failed) from exc
            finally:
                exchange.close()

        try:
            return within(complete, deadline, whom)
        finally:
            exchange.wake()

    def _target(self, route: ModelRoute) -> dict[str, Any]:
        common: dict[str, Any] = {"num_retries": 0, "max_retries": 0, "drop_params": True}
        if route.provider == "bedrock":
            if self._credentials is None:
                raise NotInstalled(MISSING.format("boto3"))
            address = {"aws_bedrock_runtime_endpoint": route.base_url} if route.base_url else {}
            options = {"model": f"bedrock/converse/{route.name}"}
            return common | options | address | dict(self._credentials())
        address = {"api_base": route.base_url.rstrip("/")} if route.base_url else {}
        selection = {"model": route.name, "custom_llm_provider": route.provider}
        return common | selection | address | {"api_key": route.api_key or "none"}

    @cached_property
    def _vendor(self) -> Any:
        try:
            import litellm
        except ImportError as missing:
            raise NotInstalled(MISSING.format("litellm-core")) from missing
        litellm.telemetry = False
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        return litellm


class _Exchange:
    def __init__(self, whom: str, deadline: Deadline, *, is_streamed: bool) -> None:
        self._whom, self._deadline, self._is_streamed = whom, deadline, is_streamed
        self._seconds = deadline.remaining()
        self._response: urllib3.BaseHTTPResponse | None = None
        self.error: DocsToKGError | None = None
        self.is_sent = False

    def handler(self) -> Any:
        import httpx
        from litellm.llms.custom_httpx.http_handler import HTTPHandler

        return HTTPHandler(client=httpx.Client(transport=cast(Any, self), follow_redirects=False))

    def handle_request(self, request: "httpx.Request") -> "httpx.Response":
        import httpx

        self.is_sent = True
        headers = {name: value for name, value in request.headers.items() if name not in _OWN}
        with self._noting():
            response = self._response = send(
                "POST", str(request.url), self._deadline, headers, request.read()
            )
            if response.status != HTTPStatus.OK:
                raise refusal(self._whom, response.status)
            content: Iterator[bytes] | bytes = self._streamed(response)
            if not self._is_streamed:
                content = b"".join(blocks(response, self._whom, MOST_BYTES, self._deadline))
                parsed(content, self._whom)
        kind = {"Content-Type": response.headers.get("content-type", "")}
        return httpx.Response(HTTPStatus.OK, headers=kind, content=content)

    def _streamed(self, response: "urllib3.BaseHTTPResponse") -> Iterator[bytes]:
        with self._noting():
            yield from blocks(response, self._whom, MOST_STREAMED, self._deadline)

    # litellm replaces our errors, so they are kept here.
    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            with translated(self._whom, self._seconds):
                yield
        except DocsToKGError as exc:
            self.error = exc
            raise

    def wake(self) -> None:
        if self._response is not None:
            wake(self._response)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()


def _whole(answer: Any) -> ModelReply:
    choice = answer.choices[0]
    is_reasoning = bool(getattr(choice.message, "reasoning_content", None))
    if not isinstance(text := choice.message.content, str) and not is_reasoning:
        raise TypeError("no text")
    return _reply(text or "", choice.finish_reason, answer.usage, is_reasoning)


def _streamed(answer: Any, write: Callable[[str], bool]) -> ModelReply:
    text, reason, usage, is_reasoning = "", None, None, False
    for part in answer:
        usage = getattr(part, "usage", None) or usage
        for choice in part.choices[:1]:
            reason = choice.finish_reason or reason
            is_reasoning |= bool(getattr(choice.delta, "reasoning_content", None))
            piece = choice.delta.content or ""
            text += piece
            if piece and not write(piece):
                return _reply(text, reason, usage, is_reasoning)
    return _reply(text, reason, usage, is_reasoning)


def _reply(text: str, reason: str | None, usage: Any, is_reasoning: bool) -> ModelReply:
    tokens = getattr(usage, "prompt_tokens", 0), getattr(usage, "completion_tokens", 0)
    return ModelReply(text, *tokens, "length" if reason == "length" else None, is_reasoning)
