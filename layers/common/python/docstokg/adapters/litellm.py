"""Language models through litellm."""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal

from docstokg.adapters.bounded import within
from docstokg.contracts.completion import Completion
from docstokg.contracts.language_models import ModelAccess, ModelFacts, ModelRoute
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    NotConfigured,
    NotInstalled,
    QuotaExceeded,
    Refused,
    Timeout,
    Unavailable,
    WrongAnswer,
)

_LONGEST_ANSWER = 200_000
_MILLION = 1_000_000
MISSING = "the package {} is not installed (docstokg[llm])"

_Cut = Literal["length", "time"] | None
AwsKeys = Callable[[], Mapping[str, str | None]]
"""Returns `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `aws_region_name`."""


class LiteLlm:
    """A `LanguageModel`; litellm is imported by `warm()` or at the first call (about 2 s).

    `credentials`: called for every Bedrock request.
    """

    def __init__(self, access: ModelAccess, credentials: AwsKeys | None = None) -> None:
        self._access = access
        self._credentials = credentials

    def warm(self) -> None:
        """Import litellm and run it once offline; raise `NotInstalled` if it is missing."""
        messages = [{"role": "user", "content": "ready"}]
        self._vendor.completion(model="gpt-4o-mini", messages=messages, mock_response="ready")

    def context_tokens(self, model: str) -> int | None:
        """Return the context size of a model in tokens; None if unknown."""
        route = self._access.route(model)
        # The call itself will report missing settings, without importing litellm first.
        return None if route.missing else self._facts(route, model).context_tokens

    def complete(  # noqa: PLR0913 - one call with named arguments
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
        timeout_s: float,
        schema: Mapping[str, Any] | None = None,
        told: Callable[[str], bool] | None = None,
    ) -> Completion:
        """Return one completion within `timeout_s` seconds in all, including import and streaming.

        A request with `schema` that a provider refuses is repeated without it. Raise `Timeout`,
        `QuotaExceeded` (429), `NotConfigured` (no key), `NotInstalled`, `Refused` (401),
        `Misconfigured` (other 4xx), `Unavailable` (unreachable, 5xx, broken off) or `WrongAnswer`
        (no text).
        """
        route = self._access.route(model)
        if (setting := route.missing) is not None:
            raise NotConfigured(f"no key or address is set for model {model} ({setting})")
        arguments = {
            "messages": [dict(message) for message in messages],
            "temperature": temperature,
            "max_tokens": max_tokens,
            # Whole seconds, because litellm keeps one client per timeout value.
            "timeout": float(int(timeout_s) + 1),
        }
        if schema is not None:
            json_schema = {"name": "reply", "strict": True, "schema": dict(schema)}
            arguments["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        stream = _Stream(told) if told is not None else None
        if stream is not None:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        ended, until = False, time.monotonic() + timeout_s
        try:
            answer = within(
                lambda: self._call(route, arguments, model, stream), timeout_s, f"model {model}"
            )
            ended = True
        except Timeout:
            if stream is None or not stream.text.strip():
                raise
        finally:
            if stream is not None:
                stream.close()
        if stream is None:
            return self._completion(answer, route, model)
        if not stream.text:  # a server without streaming sends the whole answer
            whole = {k: v for k, v in arguments.items() if not k.startswith("stream")}
            left_s = until - time.monotonic()
            answer = within(lambda: self._call(route, whole, model, None), left_s, f"model {model}")
            return self._completion(answer, route, model)
        cut: _Cut = "time" if not ended else "length" if stream.reason == "length" else None
        return self._counted(stream.text, stream.usage, route, model, cut)

    def price(self, model: str) -> tuple[float, float] | None:
        """Return dollars per token by the operator's or litellm's list; None for unknown models."""
        facts = self._facts(self._access.route(model), model)
        price = facts.dollars_in / _MILLION, facts.dollars_out / _MILLION
        return price if any(price) else None

    def _call(
        self, route: ModelRoute, arguments: dict[str, Any], model: str, stream: "_Stream | None"
    ) -> Any:
        vendor = self._vendor
        target = self._target(route)
        try:
            answer = vendor.completion(**target | arguments)
            return answer if stream is None else stream.read(answer)
        except Exception as exc:
            refused = any(kind.__name__ == "BadRequestError" for kind in type(exc).__mro__)
            if refused and "response_format" in arguments:
                plain = {k: v for k, v in arguments.items() if k != "response_format"}
                return self._call(route, plain, model, stream)
            raise _translated(exc, model) from exc

    def _target(self, route: ModelRoute) -> dict[str, Any]:
        common: dict[str, Any] = {"num_retries": 0, "max_retries": 0, "drop_params": True}
        if route.provider == "bedrock":
            if self._credentials is None:
                raise NotInstalled(MISSING.format("boto3"))
            address = {"aws_bedrock_runtime_endpoint": route.base_url} if route.base_url else {}
            options = {"model": f"bedrock/converse/{route.name}"}
            return common | options | address | dict(self._credentials())
        address = {"api_base": route.base_url.rstrip("/")} if route.base_url else {}
        served_as = "openai" if route.provider == "gateway" else route.provider
        asked = {"model": route.name, "custom_llm_provider": served_as}
        return common | asked | address | {"api_key": route.api_key or "none"}

    @cached_property
    def _vendor(self) -> Any:
        # Without these, importing litellm fetches a price list and reads a .env file.
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        try:
            import litellm
        except ImportError as missing:
            raise NotInstalled(MISSING.format("litellm-core")) from missing
        litellm.telemetry = False
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        return litellm

    def _completion(self, answer: Any, route: ModelRoute, model: str) -> Completion:
        choices = getattr(answer, "choices", None)
        text = getattr(getattr(choices[0], "message", None), "content", None) if choices else None
        if not isinstance(text, str):
            raise WrongAnswer(f"model {model} answered without text")
        is_cut = getattr((choices or [None])[0], "finish_reason", None) == "length"
        return self._counted(
            text, getattr(answer, "usage", None), route, model, "length" if is_cut else None
        )

    def _counted(
        self, text: str, usage: Any, route: ModelRoute, model: str, cut: _Cut
    ) -> Completion:
        tokens_in = _count(getattr(usage, "prompt_tokens", 0))
        tokens_out = _count(getattr(usage, "completion_tokens", 0))
        facts = self._facts(route, model)
        dollars = (tokens_in * facts.dollars_in + tokens_out * facts.dollars_out) / _MILLION
        return Completion(
            cut=cut,
            # Without lone surrogates and NUL, which some JSON readers reject.
            text=text[:_LONGEST_ANSWER].encode(errors="ignore").decode().replace("\x00", ""),
            model=model,
            provider=route.provider,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=round(dollars, 8) if facts.dollars_in or facts.dollars_out else None,
        )

    def _facts(self, route: ModelRoute, model: str) -> ModelFacts:
        if (facts := self._access.facts_of(model)) is not None:
            return facts
        listed = self._vendor.model_cost
        names = (f"{route.provider}/{route.name}", route.name)
        row: Mapping[str, Any] = next((listed[name] for name in names if name in listed), {})
        return ModelFacts(
            context_tokens=_count(row.get("max_input_tokens")) or None,
            dollars_in=float(row.get("input_cost_per_token") or 0.0) * _MILLION,
            dollars_out=float(row.get("output_cost_per_token") or 0.0) * _MILLION,
        )


class _Stream:
    """Reads one stream until it ends, is closed, or its client disconnects."""

    def __init__(self, told: Callable[[str], bool]) -> None:
        self._told = told
        self._closed = threading.Event()
        self._answer: Any = None
        self.text = ""
        self.reason: str | None = None
        self.usage: Any = None

    def read(self, answer: Any) -> None:
        self._answer = answer
        try:
            for part in answer:
                if self._closed.is_set():
                    return
                self.usage = getattr(part, "usage", None) or self.usage
                choices = getattr(part, "choices", None)
                if not choices:
                    continue
                self.reason = getattr(choices[0], "finish_reason", None) or self.reason
                piece = getattr(getattr(choices[0], "delta", None), "content", None)
                if not isinstance(piece, str) or not piece:
                    continue
                self.text += piece
                if len(self.text) > _LONGEST_ANSWER or not self._told(self.text):
                    return
        except Exception:
            if not self._closed.is_set():  # otherwise the error comes from closing it
                raise
        finally:
            close = getattr(getattr(answer, "completion_stream", None), "close", None)
            if callable(close):
                close()

    def close(self) -> None:
        self._closed.set()
        stream = getattr(getattr(self._answer, "completion_stream", None), "response", None)
        network = getattr(stream, "extensions", {}).get("network_stream")
        if network is not None and not getattr(stream, "is_closed", True):
            with suppress(OSError):
                network.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_UNREACHABLE = frozenset(
    {"ConnectError", "ConnectionError", "ConnectionRefusedError", "gaierror", "SSLError"}
)
_BROKEN_OFF = frozenset({"RemoteProtocolError", "ReadError", "IncompleteRead"})


def _translated(error: Exception, model: str) -> DocsToKGError:
    """Return our error for litellm's, most specific first; their messages may quote the prompt."""
    if isinstance(error, DocsToKGError):
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    for name, error_class, message in _BY_KIND:
        if name in kinds:
            return error_class(f"model {model} {message}")
    behind = _behind(error)
    if behind & _UNREACHABLE:
        return Unavailable(f"model {model} could not be reached")
    if behind & _BROKEN_OFF:
        return Unavailable(f"model {model} broke off")
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500:
        kind = Refused if status == 401 else Misconfigured
        return kind(f"model {model} refused the call ({_REFUSALS.get(status, status)})")
    if status == 500 and "HTTPStatusError" not in behind:  # set by litellm, not by the server
        return WrongAnswer(f"model {model} answered something that is no completion")
    reason = status if isinstance(status, int) else type(error).__name__
    return Unavailable(f"model {model} failed ({reason})")


_BY_KIND: tuple[tuple[str, type[DocsToKGError], str], ...] = (
    ("Timeout", Timeout, "did not answer in time"),
    ("APITimeoutError", Timeout, "did not answer in time"),
    ("RateLimitError", QuotaExceeded, "refused because of too many calls (429)"),
    ("APIResponseValidationError", WrongAnswer, "answered something that is no completion"),
    ("JSONDecodeError", WrongAnswer, "answered something that is no JSON"),
)
_REFUSALS = {
    400: "400, the request or the model's name",
    401: "401, the key",
    403: "403, the rights of key or role",
    404: "404, no such model there",
}


def _behind(error: BaseException | None) -> set[str]:
    """Return all error types in the chain: litellm reports a refused connection as a 500."""
    names: set[str] = set()
    while error is not None and len(names) < 100:
        names |= {kind.__name__ for kind in type(error).__mro__} - {"ConnectionError"}
        # The standard library's own, not a vendor's class of the same name.
        names |= {"ConnectionError"} if isinstance(error, ConnectionError) else set()
        error = error.__cause__ or error.__context__
    return names
