"""Verifier in a folder: an NLI model or a token classifier.

Files: `model.onnx`, `tokenizer.json`, `config.json` (`id2label`), optionally `verifier.json`
(`Card`).
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from docstokg.adapters.bounded import within
from docstokg.adapters.onnx.cross_encoder import CrossEncoder
from docstokg.contracts.model import Contract
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, WrongAnswer
from docstokg.ports import Opinion, Pair, strongest

SETTING = "DOCSTOKG_VERIFIER"
BATCH = 8

type Role = Literal["supported", "contradicted", "unsupported"]
# Usual class names, in lower case; other classes are ignored.
ROLES: dict[str, Role] = {
    "entailment": "supported", "supported": "supported", "contradiction": "contradicted",
    "not_entailment": "unsupported", "unsupported": "unsupported",
}  # fmt: skip


class Card(Contract):
    """`verifier.json`.

    `labels`: meaning of a class by its name in `id2label`. `threshold`: probability at which a
    claim is supported or, for a token classifier, above which a token is unsupported. `premise`:
    template of the premise, with `{source}`. `max_tokens`: of a pair.
    """

    premise_first: bool = True
    premise: str = "{source}"
    labels: dict[str, Role] = {}
    threshold: float | None = Field(None, ge=0, le=1)
    max_tokens: int = Field(512, ge=32)


class OnnxVerifier:
    """A `Verifier` in this process."""

    def __init__(self, folder: Path, threshold: float) -> None:
        self.name, self._folder, self._default = f"onnx:{folder.name}", folder, threshold
        self._encoder = CrossEncoder(folder / "model.onnx", "verifier", SETTING)

    def warm(self) -> None:
        """Load the model; raise `Misconfigured` for missing or invalid files."""
        _ = self._roles
        self._encoder.warm()

    @property
    def threshold(self) -> float:
        """Return the probability of support at which a claim counts as supported."""
        chosen = self._card.threshold
        if chosen is None:
            return self._default
        return 1 - chosen if self._is_spans else chosen

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return one opinion per pair, None for a claim longer than half the model's input.

        Raise `Timeout`, `Misconfigured` (files), `Unavailable` (the model fails) or `WrongAnswer`
        (wrong number of classes, or non-finite values).
        """
        return within(lambda: self._verified(pairs, deadline), deadline, self.name)

    def _verified(self, pairs: Sequence[Pair], deadline: Deadline) -> list[Opinion | None]:
        rows = [
            (place, window)
            for place, pair in enumerate(pairs)
            for source in pair.sources
            for window in self._windows(source, pair.claim)
        ]
        rows.sort(key=lambda row: len(row[1]))  # little padding
        opinions_by_pair: dict[int, list[Opinion]] = {}
        for start in range(0, len(rows), BATCH):
            if deadline.is_over():
                raise Timeout(f"{self.name}: {start} of {len(rows)} windows were read in time")
            batch = rows[start : start + BATCH]
            for (place, _), opinion in zip(batch, self._opinions(batch), strict=True):
                opinions_by_pair.setdefault(place, []).append(opinion)
        return [
            strongest(opinions_by_pair[n]) if n in opinions_by_pair else None
            for n in range(len(pairs))
        ]

    def _windows(self, source: str, claim: str) -> list[Any]:
        card, tokenizer = self._card, self._encoder.tokenizer
        if len(tokenizer.encode(claim)) > card.max_tokens // 2:
            return []
        texts = card.premise.replace("{source}", source), claim
        encoded = tokenizer.encode(*(texts if card.premise_first else texts[::-1]))
        if len(encoded) > card.max_tokens:
            encoded = self._cutting.encode(*(texts if card.premise_first else texts[::-1]))
        return [encoded, *encoded.overflowing]

    @cached_property
    def _cutting(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self._encoder.tokenizer.to_str())
        longest, side = self._card.max_tokens, "first" if self._card.premise_first else "second"
        tokenizer.enable_truncation(longest, stride=longest // 8, strategy=f"only_{side}")
        return tokenizer

    def _opinions(self, batch: Sequence[tuple[int, Any]]) -> list[Opinion]:
        windows = [window for _, window in batch]
        values = self._encoder.outputs(windows)
        if values.shape[-1] != len(self._roles) or not np.isfinite(values).all():
            raise WrongAnswer(f"{self.name}: the output is not {len(self._roles)} finite numbers")
        probabilities = _probabilities(values)
        if values.ndim == 2:
            return [self._opinion(row) for row in probabilities]
        claim = 1 if self._card.premise_first else 0
        return [
            self._weakest(
                row for row, side in zip(rows, window.sequence_ids, strict=False) if side == claim
            )
            for rows, window in zip(probabilities, windows, strict=True)
        ]

    def _opinion(self, row: NDArray[np.float64]) -> Opinion:
        by_role = {role: float(p) for role, p in zip(self._roles, row, strict=True) if role}
        supported = by_role.get("supported", 1 - by_role.get("unsupported", 0.0))
        return Opinion(min(1.0, max(0.0, supported)), by_role.get("contradicted"))

    def _weakest(self, tokens: Iterable[NDArray[np.float64]]) -> Opinion:
        opinions = map(self._opinion, tokens)
        return min(opinions, key=lambda opinion: opinion.supported, default=Opinion(0.0))

    @cached_property
    def _is_spans(self) -> bool:
        return len(self._encoder.session.get_outputs()[0].shape) == 3

    @cached_property
    def _card(self) -> Card:
        file = self._folder / "verifier.json"
        if not file.is_file():
            return Card()
        try:
            return Card.model_validate_json(file.read_bytes())
        except ValidationError as wrong:
            first = wrong.errors(include_input=False)[0]
            raise Misconfigured(f"{file}: {first['loc']}: {first['msg']}") from wrong

    @cached_property
    def _roles(self) -> tuple[Role | None, ...]:
        file = self._folder / "config.json"
        try:
            labels = json.loads(file.read_bytes())["id2label"]
            names = [str(labels[key]) for key in sorted(labels, key=int)]
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as wrong:
            raise Misconfigured(f"{file} is missing or has no id2label ({SETTING})") from wrong
        usual: Role | None = "supported" if len(names) == 1 else None
        roles = tuple(
            self._card.labels.get(label, ROLES.get(label.casefold(), usual)) for label in names
        )
        if not {"supported", "unsupported"} & set(roles):
            raise Misconfigured(f"{file}: say in verifier.json which of {names} is `supported`")
        return roles


def _probabilities(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.shape[-1] == 1:
        values = np.concatenate([values, np.zeros_like(values)], axis=-1)
        return _probabilities(values)[..., :1]
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
