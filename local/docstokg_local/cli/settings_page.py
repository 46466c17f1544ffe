"""Writes docs/settings.md from the settings."""

import sys
from typing import get_args

from docstokg.contracts.model import field_texts
from docstokg.settings import PARTS, SECRETS, variable

HEAD = """# Settings

Environment variables, read once when a process starts; `--index` and `--graph` of a command
override `DOCSTOKG_INDEX_URL` and `DOCSTOKG_GRAPH_URL`. `docstokg doctor --settings` prints those in
force. A wrong value is an error that names its variable. An unknown `DOCSTOKG_*` variable is an
error that names the nearest known one; a function in AWS logs `unknown_settings` instead. Passwords
and keys may come from Secrets Manager (`DOCSTOKG_SECRETS`). Flags can be changed without a deploy.
This page is written by `make settings-page`.
"""


def descriptions() -> dict[str, str]:
    """Return the description of each setting, by field; raise KeyError if one has none."""
    return {
        field: about.description or field_texts(part)[field]
        for part in PARTS
        for field, about in part.model_fields.items()
    }


def page() -> str:
    """Return the page as Markdown."""
    parts, texts = [], descriptions()
    for part in PARTS:
        rows = [
            f"| `{variable(field)}` | {_default(field, about.default)} | "
            f"{_choices(about.annotation)}{texts[field]} |"
            for field, about in part.model_fields.items()
        ]
        head = f"## {(part.__doc__ or '').rstrip('.')}\n\n| variable | default | |\n|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "\n".join([HEAD, *parts])


def _default(field: str, default: object) -> str:
    if field in SECRETS:
        return "secret"
    if default is None:
        return ""
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _choices(annotation: object) -> str:
    names = [choice for choice in get_args(annotation) if isinstance(choice, str)]
    return f"{', '.join(names)}: " if names else ""


if __name__ == "__main__":
    sys.stdout.write(page())
