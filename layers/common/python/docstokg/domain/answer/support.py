"""Support score: probability that the cited texts state a claim; informative only.

Fitted by `training.support`; its card is in `support_weights.json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from heapq import nsmallest
from importlib import resources
from typing import NamedTuple

from docstokg.contracts.model import Contract
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.values import unstated
from docstokg.domain.text.wording import content_stems, names
from docstokg.domain.text.words import normalise

# Number of windows compared by cosine; more did not help on the fitting sets.
WINDOWS = 3


class Evidence(NamedTuple):
    """A source text with its sentence spans; `header`: its title and labels."""

    text: str
    sentences: Sequence[tuple[int, int]]
    header: str = ""

    @classmethod
    def of(cls, text: str, header: str = "") -> Evidence:
        """Return a text with the sentence spans of `sentence_spans`."""
        return cls(text, sentence_spans(text), header)


class Window(NamedTuple):
    """One sentence, or two consecutive ones, of source number `source`: `text[start:end]`.

    `share`: share of the claim's stems in the window, in [0, 1].
    """

    source: int
    start: int
    end: int
    text: str
    share: float


class Features(NamedTuple):
    """Comparison of a claim with its sources.

    `share`, `window_share`: share of the claim's distinct stems in all sources and in the best
    window. `cosine`: highest cosine with a window, None without vectors. `name_missing`,
    `number_missing`: 1 if a name or number is in no source, else 0. `length`: log(1 + number of
    source sentences).
    """

    share: float
    window_share: float
    cosine: float | None
    name_missing: float
    number_missing: float
    length: float


class Model(Contract):
    """Logistic regression: sigmoid(bias + sum of weight x feature).

    `mean_cosine`: default for claims without a cosine. `card`: data and measured figures.
    """

    bias: float
    weights: Mapping[str, float]
    mean_cosine: float
    card: Mapping[str, object] = {}


@lru_cache(maxsize=1)
def fitted() -> Model:
    """Load the committed model."""
    text = resources.files(__package__).joinpath("support_weights.json").read_text("utf-8")
    return Model.model_validate_json(text)


def best_windows(
    claim: str, evidence: Sequence[Evidence], limit: int = WINDOWS
) -> tuple[Window, ...]:
    """Return the windows with the highest share of a claim's stems, best first.

    Ties go to fewer stems. Windows stay within sources.
    """
    wanted = frozenset(content_stems(claim))
    ranked: list[tuple[float, int, str, int, Window]] = []
    for place, source in enumerate(evidence):
        stems = [frozenset(content_stems(source.text[a:b])) for a, b in source.sentences]
        for first, span in enumerate(source.sentences):
            for last in range(first, min(first + 2, len(stems))):
                covered = stems[first] | stems[last]
                start, end = span[0], source.sentences[last][1]
                text = source.text[start:end]
                window = Window(place, start, end, text, _share(wanted, covered))
                ranked.append((-window.share, len(covered), text, place, window))
    return tuple(window for *_, window in nsmallest(limit, ranked))


def features(
    claim: str,
    evidence: Sequence[Evidence],
    windows: Sequence[Window],
    cosines: Sequence[float] | None = None,
) -> Features | None:
    """Return the features of a claim (without markers); None if the sources have no sentence.

    `windows`: from `best_windows`. `cosines`: of the claim with each window's text.
    """
    if not windows:
        return None
    texts = [part for source in evidence for part in (source.header, source.text) if part]
    folded = normalise("\n".join(texts))
    stems = frozenset[str]().union(
        *(content_stems(source.text[a:b]) for source in evidence for a, b in source.sentences),
        *(content_stems(source.header) for source in evidence),
    )
    return Features(
        share=_share(frozenset(content_stems(claim)), stems),
        window_share=windows[0].share,
        cosine=max(cosines) if cosines else None,
        name_missing=float(any(name not in folded for name in names(claim))),
        number_missing=float(bool(unstated(claim, *texts))),
        length=math.log1p(sum(len(source.sentences) for source in evidence)),
    )


def score(values: Features | None, model: Model | None = None) -> float:
    """Return the support in [0, 1]: 0 without features, else the model's probability.

    Assumes that half of all claims are supported.
    """
    if values is None:
        return 0.0
    model = model or fitted()
    cosine = model.mean_cosine if values.cosine is None else values.cosine
    by_name = values._replace(cosine=cosine)._asdict()
    total = model.bias + sum(weight * by_name[name] for name, weight in model.weights.items())
    return 1 / (1 + math.exp(-total))


def _share(wanted: Set[str], stems: Set[str]) -> float:
    return len(wanted & stems) / len(wanted) if wanted else 0.0
