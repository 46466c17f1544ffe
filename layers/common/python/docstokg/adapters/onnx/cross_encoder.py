"""ONNX cross-encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.session import open_session, run_session
from docstokg.errors import Misconfigured

THREADS = 2
_PADS = ("[PAD]", "<pad>")


@dataclass
class CrossEncoder:
    """An ONNX model; `setting`: variable with its path.

    `longest`: tokens of a pair; the longer text is truncated (None: no limit).
    """

    _path: Path
    _role: str
    _setting: str
    _longest: int | None = None

    def warm(self) -> None:
        """Load tokenizer and model."""
        _ = self.tokenizer, self.session

    @cached_property
    def tokenizer(self) -> Any:
        """Return the tokenizer, without padding; raise `Misconfigured` if it is missing."""
        self._present(file := self._path.with_name("tokenizer.json"))
        try:
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Misconfigured(f"a local {self._role} needs {missing.name}") from missing
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self._longest is not None:
            tokenizer.enable_truncation(self._longest)
        return tokenizer

    @cached_property
    def session(self) -> Any:
        """Return the session; raise `Misconfigured` if the file is missing or not a model."""
        self._present(self._path)
        return open_session(self._path, THREADS, f"set {self._setting}")

    def _present(self, file: Path) -> None:
        if not file.is_file():
            raise Misconfigured(f"{file} is missing ({self._setting})")

    def outputs(self, encoded: Sequence[Any]) -> NDArray[np.float64]:
        """Return the first output for a batch of encodings; raise `Unavailable` if the model fails.

        Shape [batch, ...]; encodings are padded on the right, to a fixed model's length.
        """
        fixed = self.session.get_inputs()[0].shape[-1]
        longest = fixed if isinstance(fixed, int) else max(len(item) for item in encoded)
        pad = next((id_ for token in _PADS if (id_ := self.tokenizer.token_to_id(token))), 0)

        def column(values: Sequence[Sequence[int]], fill: int) -> NDArray[np.int64]:
            rows = [[*row, *[fill] * (longest - len(row))] for row in values]
            return np.array(rows, dtype=np.int64)

        feed = {
            "input_ids": column([item.ids for item in encoded], pad),
            "attention_mask": column([item.attention_mask for item in encoded], 0),
            "token_type_ids": column([item.type_ids for item in encoded], 0),
        }
        names = {tensor.name for tensor in self.session.get_inputs()}
        inputs = {name: value for name, value in feed.items() if name in names}
        model = f"the {self._role} {self._path.stem}"
        return np.asarray(run_session(self.session, None, inputs, model)[0], dtype=np.float64)
