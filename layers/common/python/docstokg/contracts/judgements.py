"""What a language model replies when it judges statements."""

from typing import Literal

from pydantic import ConfigDict

from docstokg.contracts.model import Contract


class Judgement(Contract):
    """The reply on statement `n`, counted from 1; further fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    n: int
    verdict: Literal["supported", "contradicted", "not_stated"]
    quote: str | None = None


class Judgements(Contract):
    """The whole reply."""

    statements: tuple[Judgement, ...]
