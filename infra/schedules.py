"""Expressions of EventBridge Scheduler."""

import re

RATE = re.compile(r"rate\(([1-9]\d*) (minutes?|hours?|days?)\)")
CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# Field -> bounds, names of values, and other forms.
FIELDS: tuple[tuple[str, int, int, list[str], str], ...] = (
    ("minutes", 0, 59, [], r"(?!)"),
    ("hours", 0, 23, [], r"(?!)"),
    ("day of month", 1, 31, [], r"\?|L|\d{1,2}W"),
    ("month", 1, 12, MONTHS, r"(?!)"),
    ("day of week", 1, 7, DAYS, r"\?|L|[1-7]L|[1-7]#[1-5]"),
    ("year", 1970, 2199, [], r"(?!)"),
)


def schedule(expression: str) -> str:
    """Return the expression; raise ValueError, with the allowed forms, for another form."""
    if RATE.fullmatch(expression):
        return expression
    match = CRON.fullmatch(expression)
    if match is None:
        raise ValueError(
            "should be rate(NUMBER minutes|hours|days), or cron(MINUTES HOURS DAY-OF-MONTH MONTH "
            f"DAY-OF-WEEK YEAR), not {expression!r}"
        )
    for field, text in zip(FIELDS, match.groups(), strict=True):
        name, low, high, names, _ = field
        if not all(_is_allowed(part, *field) for part in text.split(",")):
            others = f" or {', '.join(names)}" if names else ""
            raise ValueError(f"{name} {text!r} should be * or in {low} to {high}{others}")
    if (match[3] == "?") == (match[5] == "?"):
        raise ValueError("exactly one of day of month and day of week should be ?")
    return expression


def _is_allowed(part: str, _: str, low: int, high: int, names: list[str], other: str) -> bool:
    base, slash, step = part.partition("/")
    if slash and not re.fullmatch(r"[1-9]\d*", step):
        return False
    if base == "*" or (not slash and re.fullmatch(other, base)):
        return True
    ends = base.split("-")
    numbers = [
        names.index(end) + low if end in names else int(end) if end.isdecimal() else low - 1
        for end in ends
    ]
    return len(ends) <= 2 and low <= numbers[0] <= numbers[-1] <= high
