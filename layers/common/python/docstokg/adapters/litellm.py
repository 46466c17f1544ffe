"""Language models through litellm: any provider it knows, or any OpenAI-compatible address."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from docstokg.adapters.bounded import within
from docstokg.contracts.completion import Completion
from docstokg.errors import (
    DocsToKGError,
    QuotaExceeded,
    Refused,
    Timeout,
    Unavailable,
    WrongAnswer,
)

# Names of our own list that providers know under a dated name.
PROVIDER_NAMES = {"claude-3-haiku": "anthropic/claude-3-haiku-20240307"}
_LONGEST_ANSWER = 200_000


class LiteLlm:
    """A `LanguageModel`; litellm is imported by `warm()` or at the first call (about 2 s).

    `base_url`: an OpenAI-compatible address for every model; None = each provider's own. Without
    address and key nothing is called.
    """

    def __init__(self, base_url: str | None, api_key: str | None) -> None:
        self._base_url = base_url.rstrip("/") if base_url else None
        self._api_key = api_key
        self._lock = threading.Lock()
        self._loaded: Any = None

    def warm(self) -> None:
        """Import litellm and run its code once without a network, so that no request pays.

        `Unavailable` when it is not installed; each call then says the same.
        """
        said = [{"role": "user", "content": "ready"}]
        self._vendor().completion(model="gpt-4o-mini", messages=said, mock_response="ready")

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
        timeout_s: float,
        schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Return one completion within `timeout_s` seconds in all, import and dripping included.

        A provider that refuses a request with a `schema` is asked again without it: the caller
        checks the text in any case.

        litellm's own timeout only bounds the wait between bytes. `Timeout`, `QuotaExceeded` (429),
        `Refused` (401), `Unavailable` (no connection, 4xx, 5xx, broken off) and `WrongAnswer` (no
        text where text should be).
        """
        if self._base_url is None and self._api_key is None:
            raise Unavailable(
                f"no language model is configured for {model!r}: set DOCSTOKG_LLM_BASE_URL or "
                "DOCSTOKG_LLM_API_KEY, or ask for the model 'extractive'"
            )
        arguments = {
            "messages": [dict(message) for message in messages],
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            # Whole seconds: litellm keeps one client per timeout value.
            "timeout": float(int(timeout_s) + 1),
        }
        if schema is not None:
            named = {"name": "reply", "strict": True, "schema": dict(schema)}
            arguments["response_format"] = {"type": "json_schema", "json_schema": named}
        answer = within(lambda: self._call(arguments), timeout_s, f"model {model}")
        return self._completion(answer, model)

    def price(self, model: str) -> tuple[float, float] | None:
        """Give dollars per token by litellm's list; None for models it does not list."""
        self._vendor()
        price = self._price(model)
        return price if any(price) else None

    def _call(self, arguments: dict[str, Any]) -> Any:
        model = arguments["model"]
        try:
            return self._vendor().completion(**arguments | self._target(model))
        except Exception as exc:
            refused = any(kind.__name__ == "BadRequestError" for kind in type(exc).__mro__)
            if refused and "response_format" in arguments:
                plain = {k: v for k, v in arguments.items() if k != "response_format"}
                return self._call(plain)
            raise _translated(exc, model) from exc

    def _target(self, model: str) -> dict[str, Any]:
        common = {"num_retries": 0, "max_retries": 0, "drop_params": True, "stream": False}
        if self._base_url is None:
            return common | {"model": PROVIDER_NAMES.get(model, model), "api_key": self._api_key}
        return common | {
            "model": model,
            "custom_llm_provider": "openai",
            "api_base": self._base_url,
            "api_key": self._api_key or "none",
        }

    def _vendor(self) -> Any:
        with self._lock:
            if self._loaded is None:
                # Without these, importing litellm fetches a price list and reads a .env file.
                os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
                os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
                try:
                    import litellm
                except ImportError as missing:
                    raise Unavailable("litellm-core is not installed") from missing
                litellm.telemetry = False
                litellm.suppress_debug_info = True
                litellm.turn_off_message_logging = True
                self._loaded = litellm
            return self._loaded

    def _completion(self, answer: Any, model: str) -> Completion:
        choices = getattr(answer, "choices", None)
        text = getattr(getattr(choices[0], "message", None), "content", None) if choices else None
        if not isinstance(text, str):
            raise WrongAnswer(f"model {model} answered without text")
        usage = getattr(answer, "usage", None)
        tokens_in = _count(getattr(usage, "prompt_tokens", 0))
        tokens_out = _count(getattr(usage, "completion_tokens", 0))
        price = self._price(model)
        return Completion(
            text=_legible(text[:_LONGEST_ANSWER]),
            model=model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=round(tokens_in * price[0] + tokens_out * price[1], 8),
        )

    def _price(self, model: str) -> tuple[float, float]:
        """Return dollars per token in and out from litellm's list; zeros for unknown models."""
        names = (model, PROVIDER_NAMES.get(model, model).rpartition("/")[2])
        listed: Mapping[str, Any] = next(
            (row for name in names if (row := self._loaded.model_cost.get(name))), {}
        )
        return (
            float(listed.get("input_cost_per_token") or 0.0),
            float(listed.get("output_cost_per_token") or 0.0),
        )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _legible(text: str) -> str:
    """Drop lone surrogates and NUL, which no JSON reader downstream is bound to accept."""
    return text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")


def _translated(error: Exception, model: str) -> Exception:
    """Give our error for litellm's, the most specific first; their texts may quote the prompt."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    table: tuple[tuple[str, type[DocsToKGError], str], ...] = (
        ("Timeout", Timeout, "did not answer in time"),
        ("APITimeoutError", Timeout, "did not answer in time"),
        ("RateLimitError", QuotaExceeded, "refused because of too many calls"),
        ("AuthenticationError", Refused, "refused the key"),
        ("APIResponseValidationError", WrongAnswer, "answered something that is no completion"),
        ("JSONDecodeError", WrongAnswer, "answered something that is no JSON"),
        ("OpenAIError", Unavailable, f"failed ({type(error).__name__})"),
    )
    for name, ours, said in table:
        if name in kinds:
            return ours(f"model {model} {said}")
    return error
