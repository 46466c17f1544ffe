"""Converters by format."""

import contextlib
import importlib
from importlib.metadata import PackageNotFoundError, version

from docstokg.adapters.conversion.package import unpacked
from docstokg.contracts.file_types import SUFFIXES
from docstokg.contracts.outline import Outline

# Versions of our converters, default "1"; increase one when its output changes.
OWN = {"convert_archive": "3", "convert_html": "8", "convert_json": "2", "convert_man": "4",
       "convert_odf": "7", "convert_office": "7", "convert_pdf": "4", "convert_rst": "2",
       "convert_rtf": "4", "convert_sheets": "4"}  # fmt: skip

# Reader name of a format that needs no package.
US = "docstokg"

# Format -> module, function, versioned package.
FORMATS: dict[str, tuple[str, str, str]] = {
    ".txt": ("convert_encoding", "convert", "charset-normalizer"),
    ".md": ("convert_markdown", "convert", "markdown-it-py"),
    ".rst": ("convert_rst", "convert", US),
    ".html": ("convert_html", "convert", "selectolax"),
    ".docx": ("convert_office", "convert_docx", US),
    ".pptx": ("convert_office", "convert_pptx", US),
    ".pdf": ("convert_pdf", "convert", "pypdfium2"),
    ".csv": ("convert_sheets", "convert_csv", "charset-normalizer"),
    ".xlsx": ("convert_sheets", "convert_xlsx", US),
    ".ods": ("convert_odf", "convert", US),
    ".odt": ("convert_odf", "convert", US),
    ".odp": ("convert_odf", "convert", US),
    ".ipynb": ("convert_json", "convert_notebook", "markdown-it-py"),
    ".json": ("convert_json", "convert_json", "markdown-it-py"),
    ".rtf": ("convert_rtf", "convert", "striprtf"),
    ".man": ("convert_man", "convert", US),
    ".code": ("convert_code", "convert_code", US),
    ".conf": ("convert_code", "convert_settings", US),
    ".eml": ("convert_archive", "convert_eml", "selectolax"),
    ".mbox": ("convert_archive", "convert_mbox", "selectolax"),
    ".epub": ("convert_archive", "convert_epub", "selectolax"),
    ".zip": ("convert_archive", "convert_zip", "selectolax"),
}


def installed_versions() -> dict[str, str]:
    """Map each readable suffix, also with `.gz`, to reader and version."""
    versions: dict[str, str] = {}
    for kind, (module, _, package) in FORMATS.items():
        try:
            name = US if package == US else f"{package}-{version(package)}"
            versions[kind] = f"{name}/{OWN.get(module, '1')}"
        except PackageNotFoundError:
            continue
    with contextlib.suppress(PackageNotFoundError, KeyError):
        versions[".pdf"] += f"+rapidocr-{version('rapidocr')}"
    suffixes = {
        suffix: versions[kind] for suffix, kind in SUFFIXES.items() if kind in versions
    } | versions
    return suffixes | {f"{suffix}.gz": by for suffix, by in versions.items()}


def convert(suffix: str, raw: bytes) -> tuple[Outline, ...]:
    """Read a file of this suffix.

    Raise `LoadError` if unreadable, KeyError for an unknown suffix.
    """
    if suffix.endswith(".gz"):
        suffix, raw = suffix.removesuffix(".gz"), unpacked(raw)
    module, function, _ = FORMATS[SUFFIXES.get(suffix, suffix)]
    reader = importlib.import_module(f"docstokg.adapters.conversion.{module}")
    made: Outline | tuple[Outline, ...] = getattr(reader, function)(raw)
    return made if isinstance(made, tuple) else (made,)
