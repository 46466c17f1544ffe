"""Chat completions from servers with OpenAI's format."""

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, Field

from docstokg.adapters.http.json_post import Endpoint, NotAccepted, checked
from docstokg.contracts.completion import Completion
from docstokg.contracts.language_models import ModelAccess, ModelRoute
from docstokg.errors import NotConfigured, WrongAnswer

OPENAI = "https://api.openai.com/v1"
MOST_BYTES = 1 << 20
SERVED = ("openai", "gateway")
"""Providers with this format."""


class _Message(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class HttpChat:
    """Language models of the providers in `SERVED`, with one circuit per address."""

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._endpoint = cache(self._made)

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
        """Return one completion within `timeout_s` seconds in all.

        A server that rejects `schema` or `temperature` is called again without them. Raise errors
        as `Endpoint.post`, and `NotConfigured` without a key or an address.
        """
        route = self._access.route(model)
        if (setting := route.missing) is not None:
            raise NotConfigured(f"no key or address is set for model {model} ({setting})")
        # OpenAI's reasoning models accept only the newer name, other servers often only the older.
        limit = "max_completion_tokens" if route.provider == "openai" else "max_tokens"
        plain: dict[str, Any] = {"model": route.name, "messages": [dict(one) for one in messages]}
        plain[limit] = max_tokens
        full = plain | {"temperature": temperature}
        if schema is not None:
            json_schema = {"name": "reply", "strict": True, "schema": dict(schema)}
            full["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        post, until = self._endpoint(route).post, time.monotonic() + timeout_s
        try:
            answer = post(full, timeout_s)
        except NotAccepted:
            answer = post(plain, max(0.0, until - time.monotonic()))
        reply = checked(_Reply, answer, f"model {model}")
        (choice, *_), usage = reply.choices, reply.usage or _Usage()
        if not choice.message.content:
            raise WrongAnswer(f"model {model} answered without text")
        return Completion(
            text=choice.message.content,
            model=model,
            provider=route.provider,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            cut="length" if choice.finish_reason == "length" else None,
        )

    @staticmethod
    def _made(route: ModelRoute) -> Endpoint:
        address = (route.base_url or OPENAI).rstrip("/")
        return Endpoint(f"{address}/chat/completions", route.api_key, most=MOST_BYTES)
