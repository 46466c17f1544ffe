"""What a language model answered and what it cost."""

from docstokg.contracts.model import Contract


class Completion(Contract):
    """The raw words, tokens as the provider counted them, and the price (0 when unknown)."""

    text: str
    model: str
    provider: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
