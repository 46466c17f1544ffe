"""OpenAI chat completions."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, Field

from docstokg.adapters.http.json_post import Endpoint, checked
from docstokg.contracts.completion import Cut, ModelCall, ModelReply
from docstokg.contracts.language_models import ModelRoute
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import Unavailable, WrongAnswer

OPENAI = "https://api.openai.com/v1"
# Maximum bytes of a reply; an event per token has up to 600.
MOST_BYTES = 16 << 20
LONGEST_EVENT = 1 << 20
NO_COMPLETION = "{} answered something that is no completion"


class _Message(BaseModel):
    """A message, or a piece of a streamed one; some servers send its text in parts."""

    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None

    @property
    def is_reasoning(self) -> bool:
        return bool(self.reasoning_content or self.reasoning)

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            texts = (part.get("text") for part in self.content if isinstance(part, dict))
            return "".join(text for text in texts if isinstance(text, str))
        return self.content or ""


class _Usage(BaseModel):
    prompt_tokens: Any = 0
    completion_tokens: Any = 0


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _Part(BaseModel):
    delta: _Message = _Message()
    finish_reason: str | None = None


class _Event(BaseModel):
    choices: list[_Part] = []
    usage: _Usage | None = None
    error: Any = None


class HttpChat:
    """Models of OpenAI and of compatible servers, each with a circuit of its own."""

    def __init__(self) -> None:
        self._endpoint = cache(_endpoint_of)

    def generate(
        self,
        route: ModelRoute,
        call: ModelCall,
        whom: str,
        deadline: Deadline,
        write: Callable[[str], bool] | None,
    ) -> ModelReply:
        """Make one call; raise errors as `Endpoint.post`.

        `write`: called with each streamed piece; False ends the call early.
        """
        # OpenAI's reasoning models accept only the newer name, other servers often only the older.
        limit = "max_completion_tokens" if route.provider == "openai" else "max_tokens"
        payload = call.arguments(limit=limit, is_streamed=write is not None)
        return self._endpoint(route, whom).post(
            payload | {"model": route.name},
            deadline,
            partial(_whole, whom),
            None if write is None else partial(_streamed, whom, write),
        )


def _endpoint_of(route: ModelRoute, whom: str) -> Endpoint:
    address = f"{(route.base_url or OPENAI).rstrip('/')}/chat/completions"
    return Endpoint(address, route.api_key, max_bytes=MOST_BYTES, whom=whom, counts=(Unavailable,))


def _whole(whom: str, answer: Any) -> ModelReply:
    reply = _checked(_Reply, answer, whom)
    choice, message = reply.choices[0], reply.choices[0].message
    if message.content is None and not message.is_reasoning:
        raise WrongAnswer(NO_COMPLETION.format(whom))
    return _reply(message.text, choice.finish_reason, reply.usage, message.is_reasoning)


def _checked[Shape: BaseModel](shape: type[Shape], answer: Any, whom: str) -> Shape:
    try:
        return checked(shape, answer, whom)
    except WrongAnswer as wrong:
        raise WrongAnswer(NO_COMPLETION.format(whom)) from wrong


def _streamed(whom: str, write: Callable[[str], bool], blocks: Iterator[bytes]) -> ModelReply:
    pieces, reason, usage, is_reasoning = [], None, None, False
    for data in _events(blocks, whom):
        event = _checked(_Event, data, whom)
        if event.error is not None:
            raise Unavailable(f"{whom} failed in the middle of its answer")
        usage = event.usage or usage
        for part in event.choices[:1]:
            reason = reason or part.finish_reason
            is_reasoning = is_reasoning or part.delta.is_reasoning
            pieces.append(part.delta.text)
            if pieces[-1] and not write(pieces[-1]):
                return _reply("".join(pieces), reason, usage)
    if reason is None:
        raise Unavailable(f"{whom} broke off")
    return _reply("".join(pieces), reason, usage, is_reasoning)


def _reply(
    text: str, reason: str | None, usage: _Usage | None, is_reasoning: bool = False
) -> ModelReply:
    usage = usage or _Usage()
    cut: Cut = "length" if reason == "length" else None
    return ModelReply(text, usage.prompt_tokens, usage.completion_tokens, cut, is_reasoning)


def _events(blocks: Iterator[bytes], whom: str) -> Iterator[Any]:
    tail = b""
    for block in blocks:
        *lines, tail = (tail + block).split(b"\n")
        if len(tail) > LONGEST_EVENT:
            raise WrongAnswer(f"{whom} sent an event of more than {LONGEST_EVENT} bytes")
        for line in lines:
            name, _, data = line.partition(b":")
            if name != b"data":
                continue
            if data.strip() == b"[DONE]":
                yield {"choices": [{"finish_reason": "stop"}]}
                return
            yield parsed(data, whom)
