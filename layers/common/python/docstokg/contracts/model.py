"""The two kinds of message: what strangers send is strict, what our own steps pass on is frozen."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)

Item = TypeVar("Item")

Many = Annotated[tuple[Item, ...], Field(strict=False)]
"""An immutable sequence that also accepts the list a JSON array becomes."""


def _unpacked(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


def _packed(value: Any, handler: SerializerFunctionWrapHandler) -> str:
    return json.dumps(handler(value), ensure_ascii=False, separators=(",", ":"))


Packed = Annotated[
    Item,
    BeforeValidator(_unpacked),
    WrapSerializer(_packed, return_type=str, when_used="json"),
]
"""A bulky part of a message between steps: JSON in a string, so that no expression of the state
machine copies or walks it. Every JSONata evaluation costs by the nodes of the whole state."""


class Contract(BaseModel):
    """A frozen message between our own parts; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class StrictContract(BaseModel):
    """A frozen message from a stranger: JSON types are taken literally, never converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
