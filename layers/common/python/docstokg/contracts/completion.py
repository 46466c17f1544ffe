"""What a language model answered and what it cost."""

from typing import Literal

from docstokg.contracts.model import Contract


class Completion(Contract):
    """The raw words, tokens as the provider counted them, and the price (None: not known).

    `cut`: what ended the words before their end, the model's own limit or the time.
    """

    text: str
    model: str
    provider: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    cut: Literal["length", "time"] | None = None
