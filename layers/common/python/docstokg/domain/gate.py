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

    `lead`: (best - second) / best fused score. `named`: log(1 + entities named in the question).
    `facts`: log(1 + matched facts that a chunk states; what an ontology lists tells nothing of a
    question's hops).
    """

    lead: float
    named: float
    facts: float


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


def signals(pool: Sequence[tuple[str, float]], *, named: int, facts: int) -> Signals:
    """Measure a question; `pool`: (uuid, fused score), best first."""
    scores = [score for _, score in pool[:2]]
    lead = (scores[0] - scores[1]) / scores[0] if len(scores) > 1 and scores[0] > 0 else 1.0
    return Signals(lead=lead, named=math.log1p(named), facts=math.log1p(facts))


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
