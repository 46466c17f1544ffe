"""False statements made by rule from true ones: what a check must not call supported.

Each rule returns a changed sentence, or None where it does not apply. The rules know nothing of
how the product compares sentences; they cut a sentence at its verb by a list of their own.
"""

import random
import re
from collections.abc import Callable, Sequence

_AUXILIARIES_TEXT = (
    "is are was were has have had can could may might will would should must does do did"
)
AUXILIARIES = frozenset(_AUXILIARIES_TEXT.split())
_VERBS_TEXT = (
    "include includes cause causes help helps require requires use uses occur occurs involve "
    "involves reduce reduces increase increases affect affects lead leads provide provides show "
    "shows contain contains form forms produce produces treat treats prevent prevents support "
    "supports bind binds regulate regulates promote promotes inhibit inhibits induce induces "
    "play plays predict predicts consist consists remain remains depend depends allow allows "
    "become becomes begin begins started starts won made makes became served received worked "
    "played appeared released"
)
VERBS = frozenset(_VERBS_TEXT.split())
UNDIRECTED = frozenset({"include", "includes", "show", "shows", "remain", "remains", "appeared"})
_LEADS_TEXT = "a an the not by to for in of with used associated caused be as from on at often also"
LEADS = frozenset(_LEADS_TEXT.split())
Rule = Callable[[str, random.Random, Sequence[str]], str | None]


def cut(sentence: str) -> tuple[list[str], str, list[str]] | None:
    """Give (words before, verb, words after) at the first auxiliary, else the first known verb."""
    words = sentence.rstrip(" .").split()
    for known in (AUXILIARIES, VERBS):
        for place, word in enumerate(words[1:], start=1):
            if word.lower().strip(",") in known:
                return words[:place], word, words[place + 1 :]
    return None


def negated(sentence: str, rng: random.Random, others: Sequence[str]) -> str | None:
    """Add a negation, or remove the one there is."""
    if re.search(r"\b(not|no|never|without|cannot)\b", sentence, re.IGNORECASE):
        plain = re.sub(r"\b(?:not|never) ", "", sentence, count=1, flags=re.IGNORECASE)
        return plain if plain != sentence else None
    if (parts := cut(sentence)) is None:
        return None
    before, verb, after = parts
    if verb.lower() in AUXILIARIES:
        return _joined([*before, verb, "not", *after])
    plural = not verb.endswith("s")
    return _joined([*before, "do" if plural else "does", "not", verb.removesuffix("s"), *after])


def other_number(sentence: str, rng: random.Random, others: Sequence[str]) -> str | None:
    """Put another number in the place of one."""
    numbers = list(re.finditer(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", sentence))
    if not numbers:
        return None
    number = rng.choice(numbers)
    value = float(number[0].replace(",", ""))
    changed = round(value * rng.choice([2, 3, 0.5]) + rng.choice([0, 1]), 1)
    text = f"{changed:g}" if f"{changed:g}" != number[0] else f"{value + 7:g}"
    tail = "," if number[0].endswith(",") else ""
    return sentence[: number.start()] + text + tail + sentence[number.end() :]


def other_subject(sentence: str, rng: random.Random, others: Sequence[str]) -> str | None:
    """Say of the subject of another sentence what this one says of its own."""
    if (parts := cut(sentence)) is None:
        return None
    before, verb, after = parts
    for _ in range(30):
        other = cut(rng.choice(others))
        if other and other[0] != before and len(other[0]) <= 6:
            return _joined([*other[0], verb, *after])
    return None


def restricted(sentence: str, rng: random.Random, others: Sequence[str]) -> str | None:
    """Add "only", "never" or "always"."""
    if (parts := cut(sentence)) is None:
        return None
    before, verb, after = parts
    word = rng.choice(["only", "never", "always"])
    if word == "only":
        return f"Only {_lowered(sentence)}"
    placed = [verb, word] if verb.lower() in AUXILIARIES else [word, verb]
    return _joined([*before, *placed, *after])


def reversed_relation(sentence: str, rng: random.Random, others: Sequence[str]) -> str | None:
    """Exchange what stands before a directed verb and what stands after it.

    Not for forms of "be" and "have" alone, "include" and "associated with": "B is A" may say what
    "A is B" says, and would be no false claim.
    """
    if (parts := cut(sentence)) is None:
        return None
    before, verb, after = parts
    lead = 0
    while lead < len(after) - 1 and after[lead].lower() in LEADS:
        lead += 1
    directed = verb.lower() in VERBS - UNDIRECTED or {"caused", "by"} <= set(after[:lead])
    if not after or len(before) > 8 or not directed:
        return None
    target = " ".join(after[lead:])
    return _joined(
        [target[0].upper() + target[1:], verb, *after[:lead], _lowered(" ".join(before))]
    )


RULES: dict[str, Rule] = {
    "negation": negated,
    "number": other_number,
    "subject": other_subject,
    "restriction": restricted,
    "reversal": reversed_relation,
}


def _joined(words: Sequence[str]) -> str:
    return " ".join(words).rstrip(" .") + "."


def _lowered(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
