"""Open an ONNX model that reads pairs of texts, with the tokenizer.json beside it."""

from pathlib import Path
from typing import Any

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
