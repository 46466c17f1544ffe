"""Language model calls."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from docstokg.contracts.model import Contract

# Reason of a truncated reply: token limit, time limit, or a stream that broke off.
type Cut = Literal["length", "time", "broken"] | None


class ModelCall(NamedTuple):
    """One call of a model; None: the provider's default."""

    messages: list[dict[str, str]]
    max_tokens: int
    temperature: float | None = None
    schema: Mapping[str, Any] | None = None

    def arguments(self, *, limit: str = "max_tokens", is_streamed: bool) -> dict[str, Any]:
        """Return the call in OpenAI's format, without the model; `limit`: name of the limit."""
        fields: dict[str, Any] = {"messages": self.messages, limit: self.max_tokens}
        if self.temperature is not None:
            fields["temperature"] = self.temperature
        if self.schema is not None:
            json_schema = {"name": "reply", "strict": True, "schema": dict(self.schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        if is_streamed:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        return fields


class ModelReply(NamedTuple):
    """Text of a model and the provider's token counts, unchecked.

    `is_reasoning`: the provider returned a thought in a field of its own.
    """

    text: str
    tokens_in: object = 0
    tokens_out: object = 0
    cut: Cut = None
    is_reasoning: bool = False


class Completion(Contract):
    """Raw completion, token counts of the provider, and cost (None: unknown)."""

    text: str
    model: str
    provider: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    cut: Cut = None
