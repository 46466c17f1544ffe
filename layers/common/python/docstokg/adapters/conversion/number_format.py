"""Spreadsheet numbers."""

import datetime
import re
from decimal import ROUND_HALF_UP, Decimal

# Built-in format codes of ECMA-376 part 1, 18.8.30; all others are General.
BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 37: "#,##0", 38: "#,##0", 39: "#,##0.00",
    40: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss",
    **dict.fromkeys((*range(14, 18), 22, *range(27, 37), *range(50, 59)), "yyyy-mm-dd"),
}  # fmt: skip

# Day 0 of a workbook without the 1904 date system.
EPOCH = datetime.datetime(1899, 12, 30)

_SECTION = re.compile(r"(?:\"[^\"]{0,255}\"|\\.|\[[^\[\]]{0,255}\]|[^;\"\\\[])+")
_TOKEN = re.compile(
    r"\"([^\"]{0,255})\"|\\(.)|\[\$([^\[\]-]{0,20})[^\[\]]{0,20}\]|\[[^\[\]]*\]|[_*]."
)
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]+)?|\.[#0?]+")
_SHOWN = {"h": 3600, "m": 60, "s": 1}


def shown(value: str, code: str, epoch: datetime.datetime) -> str:
    """Return a stored number in its format, General to 15 digits; other values are unchanged.

    `epoch`: day 0 of the workbook. Dates are ISO 8601 in every format.
    """
    try:
        return _shown(Decimal(value), value, code, epoch)
    except (ArithmeticError, ValueError):  # not a number, or one that no format can show
        return value


def _shown(number: Decimal, value: str, code: str, epoch: datetime.datetime) -> str:
    parts = _SECTION.findall(code)
    section = parts[1] if number < 0 and len(parts) > 1 else parts[0] if parts else ""
    if elapsed := _ELAPSED.search(section):
        return _elapsed(number, elapsed[1][0].lower(), section)
    plain = _TOKEN.sub("", section).lower()
    if re.search(r"[ymdhs]", plain) and "general" not in plain:
        return _moment(number, plain, epoch)
    digits_text = _written(abs(number) if len(parts) > 1 else number, section)
    return f"{float(value):.15g}" if digits_text is None else digits_text


def _elapsed(number: Decimal, unit: str, section: str) -> str:
    seconds = int((number * 86400).quantize(Decimal(1), ROUND_HALF_UP))
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    first, remainder = divmod(seconds, _SHOWN[unit])
    fields = [str(first)]
    if unit == "h":
        fields.append(f"{remainder // 60:02}")
    if unit != "s" and "s" in section.lower():
        fields.append(f"{remainder % 60:02}")
    return sign + ":".join(fields)


def _moment(number: Decimal, code: str, epoch: datetime.datetime) -> str:
    moment = epoch + datetime.timedelta(seconds=round(float(number) * 86400))
    hours, seconds = "h" in code, "s" in code
    parts = [] if (hours or seconds) and not re.search(r"[yd]", code) else ["%Y-%m-%d"]
    if hours or seconds:
        parts.append(":".join(("%H",) * hours + ("%M",) + ("%S",) * seconds))
    return moment.strftime(" ".join(parts))


def _written(number: Decimal, section: str) -> str | None:
    text = _TOKEN.sub(_literal, section)
    digits = _DIGITS.search(text)
    if digits is None or "/" in text or re.search(r"e[+-]", text, re.IGNORECASE):
        return None
    before, after = text[: digits.start()], text[digits.end() :]
    whole, _, part = digits[0].partition(".")
    while whole.endswith(","):
        whole, number = whole[:-1], number / 1000
    number *= 100 ** (before + after).count("%")
    rounded = number.quantize(Decimal(1).scaleb(-len(part)), ROUND_HALF_UP)
    sign, size = ("-", -rounded) if rounded < 0 else ("", rounded)
    head, _, tail = f"{size:f}".partition(".")
    required = len(part.rstrip("#?"))
    tail = tail[:required] + tail[required:].rstrip("0")
    head = head.lstrip("0").zfill(whole.count("0"))
    if "," in whole:
        head = _grouped(head)
    head = head or ("" if tail else "0")
    return f"{sign}{before}{head}{'.' if tail else ''}{tail}{after}".strip()


def _grouped(digits: str) -> str:
    first = len(digits) % 3 or 3
    groups = [digits[at : at + 3] for at in range(first, len(digits), 3)]
    return ",".join((digits[:first], *groups)) if digits else ""


def _literal(token: re.Match[str]) -> str:
    return next((group for group in token.groups() if group is not None), "")
