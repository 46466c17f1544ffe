"""Output of untrusted text."""

import json
import sys

# C0 except tab and line feed, DEL, C1 (with CSI and OSC) and characters that change the writing
# direction; each is replaced by one visible character, so that columns stay aligned.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SIGNS = _PICTURES | {0x7F: "\u2421"} | dict.fromkeys((*range(0x80, 0xA0), *_TURNS), "\ufffd")
# JSON escapes represent these characters without changing the value.
_ESCAPES = {code: f"\\u{code:04x}" for code in _SIGNS}


def printable(text: str) -> str:
    """Return the text with a symbol per control or direction character; tab and line feed stay."""
    return text.translate(_SIGNS)


def printable_json(value: object) -> str:
    """Return indented JSON of `value`; characters that could control a terminal are escaped."""
    return json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPES)


def echo(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print lines to standard output, or to standard error with `err`."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text) + end)
    stream.flush()


def print_json(value: object) -> None:
    """Print indented JSON to standard output."""
    echo(printable_json(value))


def agreed(question: str) -> bool:
    """Ask on standard error; return whether the reply is yes."""
    echo(f"{question} [y/N] ", err=True, end="")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, plus "s" unless 1: `1 chunk`, `2,000 chunks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
