"""Completion of a language model and its cost."""

from typing import Literal

from docstokg.contracts.model import Contract


class Completion(Contract):
    """Raw completion, token counts of the provider, and cost (None: unknown).

    `cut`: reason of a truncated completion: token limit or time limit.
    """

    text: str
    model: str
    provider: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    cut: Literal["length", "time"] | None = None
