"""Which converter reads which files: one module a format, imported in the child process only."""

import importlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from docstokg.contracts.outline import Outline

Convert = Callable[[bytes], tuple[Outline, ...]]

OWN = {"convert_html": "2"}
"""Versions of our own part of converters, "1" where none is given: change one when its texts do."""

FORMATS: dict[str, tuple[str, str, str]] = {
    ".txt": ("convert_encoding", "convert", "charset-normalizer"),
    ".md": ("convert_markdown", "convert", "markdown-it-py"),
    ".markdown": ("convert_markdown", "convert", "markdown-it-py"),
    ".rst": ("convert_rst", "convert", "docutils"),
    ".html": ("convert_html", "convert", "selectolax"),
    ".htm": ("convert_html", "convert", "selectolax"),
    ".docx": ("convert_docx", "convert", "python-docx"),
    ".pdf": ("convert_pdf", "convert", "pypdf"),
    ".csv": ("convert_csv", "convert", "charset-normalizer"),
    ".ipynb": ("convert_json", "convert_notebook", "markdown-it-py"),
    ".json": ("convert_json", "convert_json", "markdown-it-py"),
}
"""Suffix -> module, function, and the package whose version counts."""


def installed_versions() -> dict[str, str]:
    """Map each suffix whose package is installed to what reads it, importing none of them."""
    versions: dict[str, str] = {}
    for suffix, (module, _, package) in FORMATS.items():
        try:
            versions[suffix] = f"{package}-{version(package)}/{OWN.get(module, '1')}"
        except PackageNotFoundError:
            continue
    return versions


def converter_of(suffix: str) -> Convert:
    """Import the converter of a suffix."""
    module, function, _ = FORMATS[suffix]
    converter: Convert = getattr(
        importlib.import_module(f"docstokg.adapters.conversion.{module}"), function
    )
    return converter
