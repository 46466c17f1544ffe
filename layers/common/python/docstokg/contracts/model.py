"""The two kinds of message: what strangers send is strict, what our own steps pass on is frozen."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item")

Many = Annotated[tuple[Item, ...], Field(strict=False)]
"""An immutable sequence that also accepts the list a JSON array becomes."""


class Contract(BaseModel):
    """A frozen message between our own parts; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class StrictContract(BaseModel):
    """A frozen message from a stranger: JSON types are taken literally, never converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
