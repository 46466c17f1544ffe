"""The two kinds of message: what strangers send is strict, what our own steps pass on is frozen."""

import re
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)
from pydantic_core import ErrorDetails, from_json, to_json

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


_WORDS: Final = {
    "extra_forbidden": "there is no such field",
    "missing": "this field is required",
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
    **dict.fromkeys(("model_type", "dict_type"), "must be an object"),
    **dict.fromkeys(("string_type", "string_sub_type"), "must be a string"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "none_required": "must be null",
}
"""What the library says in words of Python."""


def wrong_in_words(error: ErrorDetails) -> str:
    """Say what is wrong with one field, in words of JSON."""
    said = _WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))
    return re.sub(r"^\w+ should", "must", said)
