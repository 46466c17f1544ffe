"""Whether the graph may reorder what retrieval selected; fitted on data, so that it harms none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from importlib.resources import files
from json import loads

from docstokg.domain.slice_graph import Blend


@dataclass(frozen=True, slots=True)
class Signals:
    """What a question looks like before the graph reorders anything.

    `top`: the best fused score, in [0, 1] (1 = first in every channel). `lead`: (best - second)
    / best. `flat`: the tenth fused score / the best. `named`: log(1 + entities named in the
    question). `facts`: log(1 + matched facts). `agreement`: share of retrieval's first ten that
    the graph puts into its own first ten. `keeps`: whether both put the same chunk first.
    """

    top: float
    lead: float
    flat: float
    named: float
    facts: float
    agreement: float
    keeps: float


@dataclass(frozen=True, slots=True)
class Gate:
    """A logistic rule over standardised signals: open iff bias + sum of w * (x - mean) / scale > 0.

    `blend`: the mixture of the restart vector the rule was fitted with.
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    bias: float
    blend: Blend

    def leaning(self, signals: Signals) -> float:
        """Give the log-odds that reordering helps."""
        return self.bias + math.fsum(
            weight * (value - mean) / scale
            for weight, value, mean, scale in zip(
                self.weights, astuple(signals), self.means, self.scales, strict=True
            )
        )

    def opens(self, signals: Signals) -> bool:
        """Tell whether citations go in the graph's order."""
        return self.leaning(signals) > 0


def signals(
    pool: Sequence[tuple[str, float]],
    selected: Sequence[str],
    by_graph: Sequence[str],
    named: int,
    facts: int,
) -> Signals:
    """Measure a question: `pool` (uuid, fused score) best first, both orders, and what matched."""
    scores = [score for _, score in pool] or [0.0]
    best = scores[0] if scores[0] > 0 else 1.0
    second = scores[1] if len(scores) > 1 else 0.0
    tenth = scores[9] if len(scores) > 9 else 0.0
    first, other = set(selected[:10]), set(by_graph[:10])
    return Signals(
        top=scores[0],
        lead=(scores[0] - second) / best,
        flat=tenth / best,
        named=math.log1p(named),
        facts=math.log1p(facts),
        agreement=len(first & other) / max(1, len(first)),
        keeps=float(bool(selected) and selected[:1] == by_graph[:1]),
    )


def fitted() -> Gate:
    """Read the committed gate (`gate_fit.json`, written by `benchmarks/fit_gate.py`)."""
    return from_json(loads(files(__package__).joinpath("gate_fit.json").read_text("utf-8")))


def from_json(stored: Mapping[str, object]) -> Gate:
    """Read a gate from the object `benchmarks/fit_gate.py` writes."""

    def numbers(name: str) -> tuple[float, ...]:
        values = stored[name]
        assert isinstance(values, list)
        return tuple(float(value) for value in values)

    passages, sharpness, bias = (float(str(stored[n])) for n in ("passages", "sharpness", "bias"))
    return Gate(
        numbers("weights"), numbers("means"), numbers("scales"), bias, Blend(passages, sharpness)
    )
