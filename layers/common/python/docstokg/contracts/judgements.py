"""Judgements of a language model."""

from typing import Literal

from pydantic import ConfigDict

from docstokg.contracts.model import Contract


class Judgement(Contract):
    """Verdict on statement `n`, 1-based; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    n: int
    verdict: Literal["supported", "contradicted", "not_stated"]
    quotes: tuple[str, ...] = ()
