"""Output in which foreign text cannot control the terminal."""

import json
import sys

# C0 but tab and line feed, DEL and C1 (where ESC, CSI and OSC live), and what turns the direction
# of writing: each becomes one visible sign, so that nothing moves.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SIGNS = _PICTURES | {0x7F: "\u2421"} | dict.fromkeys((*range(0x80, 0xA0), *_TURNS), "\ufffd")
# In JSON the same character can be written without being it.
_ESCAPES = {code: f"\\u{code:04x}" for code in _SIGNS}


def printable(text: str) -> str:
    """Return the text with a visible sign for every character that could act on a terminal."""
    return text.translate(_SIGNS)


def printable_json(value: object) -> str:
    """Write readable JSON that means exactly `value` and has no character that could act."""
    return json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPES)


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print one line or several, to standard error with `err`."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text) + end)
    stream.flush()


def agreed(question: str) -> bool:
    """Ask a person, on standard error; anything but yes is no."""
    say(f"{question} [y/N] ", err=True, end="")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def counted(count: int, what: str) -> str:
    """Write a count with its word: `1 chunk`, `2,000 chunks`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
