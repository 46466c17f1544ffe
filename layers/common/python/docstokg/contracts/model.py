"""The two kinds of message: what strangers send is strict, what our own steps pass on is frozen."""

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)
from pydantic_core import from_json, to_json

Item = TypeVar("Item")

Many = Annotated[tuple[Item, ...], Field(strict=False)]
"""An immutable sequence that also accepts the list a JSON array becomes."""


def _unpacked(value: object) -> object:
    return from_json(value) if isinstance(value, str) else value


def _packed(value: Any, handler: SerializerFunctionWrapHandler) -> str:
    # A seventh of the time of the standard library's, and a question packs 60 kB.
    return to_json(handler(value)).decode()


Packed = Annotated[
    Item, BeforeValidator(_unpacked), WrapSerializer(_packed, return_type=str, when_used="json")
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
