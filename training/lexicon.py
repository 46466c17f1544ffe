"""Counts the words of passages into docstokg/domain/answer/lexicon.json.

    python -m training.lexicon --data ../shared/data --fetched FOLDER

`--fetched` holds the stories of uci-soe/FairytaleQAData (`FairytaleQAData/`, as its repository has
them), for words of daily life.

Rarity: in how many passages a stem occurs. Verbs: words that follow "to" or a modal verb in
a tenth of their occurrences or more, and articles and possessives seldom, with their regular forms;
and irregular forms that follow a pronoun in a seventh of theirs.
"""

import argparse
import csv
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from docstokg.domain.answer import lexicon
from docstokg.domain.text.wording import NEGATIONS, content_stems
from docstokg.domain.text.words import STOP_WORDS

SETS = ("scifact_train", "pubmedqa", "medquad_rare")
CLAIMS = ("wice_dev", "expertqa_val")
MODALS_TEXT = "can could may might must will would shall should cannot"
MODALS = frozenset(MODALS_TEXT.split())
PRONOUNS = frozenset(["it", "they", "he", "she", "we", "who", "which", "i", "you"])
ARTICLES = frozenset(["the", "a", "an", "this", "these", "of", "in", "his", "her", "their", "its"])
WORD = re.compile(r"[a-z]+")
LEAST_SEEN = 8
LEAST_MODAL = 2
SHARE_OF_LEADS = 0.1
SHARE_OF_NOUNS = 0.02
SHARE_OF_PRONOUNS = 0.15
MOST_AFTER_ARTICLES = 0.3
LEAST_PASSAGES = 8
LONGEST_STEM = 20
LICENCES = (
    "counts of words in SciFact abstracts (ODC-By), PubMedQA (MIT), MedQuAD (CC BY 4.0), WiCE "
    "(ODC-BY, text CC BY-SA), ExpertQA (MIT), FairytaleQA (Apache-2.0)"
)


def main() -> None:
    """Count and write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--fetched", type=Path, required=True)
    options = arguments.parse_args()
    stems: Counter[str] = Counter()
    words: Counter[str] = Counter()
    led: Counter[str] = Counter()
    modal: Counter[str] = Counter()
    named: Counter[str] = Counter()
    told: Counter[str] = Counter()
    count = 0
    for text in (*texts(options.data), *stories(options.fetched)):
        count += 1
        stems.update(set(content_stems(text)))
        own = WORD.findall(text.lower())
        words.update(own)
        for before, word in pairwise(own):
            led[word] += before == "to" or before in MODALS
            modal[word] += before in MODALS
            told[word] += before in PRONOUNS
            named[word] += before in ARTICLES
    grouped: dict[str, list[str]] = defaultdict(list)
    for name, seen in sorted(stems.items()):
        if seen >= LEAST_PASSAGES and not name.isdigit() and len(name) < LONGEST_STEM:
            grouped[f"{math.log(1 + count / seen):.1f}"].append(name)
    found = verbs(words, led, modal, told, named)
    file = {
        "card": {
            "made_by": "training/lexicon.py",
            "licences": LICENCES,
            "passages": str(count),
            "stems": str(sum(map(len, grouped.values()))),
            "verbs": str(len(found)),
        },
        "rarest": round(math.log(1 + count / (LEAST_PASSAGES // 2)), 1),
        "verbs": " ".join(found),
        "idf": {value: " ".join(grouped[value]) for value in sorted(grouped, key=float)},
    }
    target = Path(lexicon.__file__).with_suffix(".json")
    target.write_text(json.dumps(file, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(file["card"], target.stat().st_size, "bytes")


def texts(data: Path) -> Iterator[str]:
    """Give the passages of all sets."""
    for name in SETS:
        for row in _rows(data / name / "passages.jsonl"):
            yield str(row["text"])
    for name in CLAIMS:
        for row in _rows(data / name / "claims.jsonl"):
            yield " ".join(row["evidence"])


def stories(fetched: Path) -> Iterator[str]:
    """Give the sections of all stories, each once."""
    sections: dict[str, None] = {}
    for path in sorted(fetched.glob("FairytaleQAData/**/*-story.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            sections.update((row.get("text") or "", None) for row in csv.DictReader(lines))
    yield from sections


def _rows(path: Path) -> Iterator[dict[str, list[str]]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def verbs(
    words: Counter[str],
    led: Counter[str],
    modal: Counter[str],
    told: Counter[str],
    named: Counter[str],
) -> list[str]:
    """Return the words that are used as verbs, sorted."""
    found: set[str] = set()
    for word, seen in words.items():
        if seen < LEAST_SEEN or len(word) < 3 or word in NEGATIONS | STOP_WORDS:
            continue
        is_led = led[word] >= SHARE_OF_LEADS * seen and modal[word] >= LEAST_MODAL
        is_noun = named[word] > MOST_AFTER_ARTICLES * seen
        present, past, doubled = forms(word)
        if is_led and not is_noun:
            found.update((word, present, past, *((doubled,) if words[doubled] else ())))
        elif led[word] >= SHARE_OF_NOUNS * seen and led[word] >= LEAST_MODAL:
            continue  # a noun as often
        elif (
            told[word] >= SHARE_OF_PRONOUNS * seen
            and not is_noun
            and not word.endswith(("ly", "ing"))
        ):
            found.add(word)
    return sorted(found)


def forms(verb: str) -> tuple[str, str, str]:
    """Return the regular forms of a verb, the last with its consonant doubled."""
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb[:-1]}ied"
    present = f"{verb}es" if verb.endswith(("s", "x", "sh", "ch")) else f"{verb}s"
    past = f"{verb}d" if verb.endswith("e") else f"{verb}ed"
    return present, past, f"{verb}{verb[-1]}ed"


if __name__ == "__main__":
    main()
