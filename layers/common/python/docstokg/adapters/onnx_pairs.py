"""Open and run an ONNX model that reads pairs of texts, with the tokenizer.json beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.errors import Misconfigured


def open_pair_model(
    path: Path, *, needed: tuple[str, ...], setting: str, use: str, threads: int, max_tokens: int
) -> tuple[Any, Any]:
    """Give (session, tokenizer); `Misconfigured` names the missing file, package or bad model.

    `needed`: file names beside `path`, `tokenizer.json` among them. `setting` and `use` are what
    the messages call the setting and the model.
    """
    for file in (path, *(path.with_name(name) for name in needed)):
        if not file.is_file():
            raise Misconfigured(f"{file} is missing ({setting})")
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise Misconfigured(f"{use} needs {missing.name}") from missing
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as broken:  # onnxruntime has a dozen classes without a common parent
        raise Misconfigured(f"{path} is not a readable model") from broken
    tokenizer = Tokenizer.from_file(str(path.with_name("tokenizer.json")))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.enable_padding()
    return session, tokenizer


def pair_logits(
    session: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]]
) -> NDArray[np.float64]:
    """Run one batch; give the model's first output as it is, whose first axis should be `pairs`.

    Of the usual inputs the model gets those it names.
    """
    encoded = tokenizer.encode_batch([tuple(pair) for pair in pairs])
    feed = {
        "input_ids": np.array([item.ids for item in encoded], dtype=np.int64),
        "attention_mask": np.array([item.attention_mask for item in encoded], dtype=np.int64),
        "token_type_ids": np.array([item.type_ids for item in encoded], dtype=np.int64),
    }
    wanted = {given.name for given in session.get_inputs()}
    given = {name: value for name, value in feed.items() if name in wanted}
    return np.asarray(session.run(None, given)[0], dtype=np.float64)
