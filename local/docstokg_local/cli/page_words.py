"""Writes functions/page/static/words.js, the page's reason texts."""

import json
import sys

from docstokg.contracts.reason_words import REASONS, VERDICT_REASONS


def module() -> str:
    """Return the JavaScript module as text."""
    tables = {"REASONS": REASONS, "WHY": VERDICT_REASONS}
    lines = ["// Written by `make page-words` from contracts/reason_words.py."]
    lines += [f"export const {n} = {json.dumps(t, indent=2)};" for n, t in tables.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(module() + "\n")
