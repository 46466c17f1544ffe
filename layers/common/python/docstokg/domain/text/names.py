"""Rules for names."""

import re
from collections.abc import Iterable, Iterator

from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.words import STOP_WORDS, fold

# Characters (and at most eight words); longer "names" are sentences.
LONGEST_NAME = 60

# Characters; a longer title is not a name.
LONGEST_TITLE = 200

# A label that heads sections in this many documents is not a name.
MANY_DOCUMENTS = 5


def _words(text: str, between: str | None = None) -> frozenset[str]:
    return frozenset(text.split(between))


_ARTICLE = re.compile(r"^(?:the|an?) ", re.I)
_LEADING = _words("the a an this that these those his her its their our my your")
_INSIDE = _words("of de del della der di da dos du la le van von den bin ibn al el & the")
_PARENTHESIS = re.compile(r"(?:(?<!\s)\s++)?[(\[][^()\[\]]*[)\]]\s*")
_POSSESSIVE = re.compile(r"['’]s?$")
_NUMBERING = re.compile(
    r"^(?:(?:chapter|section|part|appendix|step)\s+)?\d+(?:\.\d+)*[.):]?\s+", re.I
)
_CODE = re.compile(
    r"[`{}\[\]<>=|\\$@*^~%]|\w\(|\(\)|::|->|://|__|^[-/.#]|\s--?\w|[a-z0-9]_[a-z0-9]|[a-z]_[A-Z]|\.{3}|…|/.*/"
)
# `readFile(path)`, but not `git-rebase(1)` or "The Chase (1946 film)".
_CALL = re.compile(r"\w\((?!\d\w?\))")
_MANUAL_PAGE = re.compile(r"(?=[\w.+:@\[-]*?[^\W\d_])[\w.+:@\[-]+\(\d\w{0,3}\)(?:\s.*)?")
_FILE = re.compile(
    r"\.(?:adoc|bak|cfg|conf|csv|docx?|gz|html?|ini|ipynb|jsonl?|log|md|odt|pdf|pptx?|py|rst|sh|"
    r"toml|tsv|txt|xlsx?|xml|ya?ml|zip)$",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"[a-z]{2,}(?:-[a-z]{2,})+")
_SENTENCE_END = re.compile(r"[?!;]|[.:,]$")
_NUMERAL = re.compile(r"[IVXLCDM]+")
_ASKING = _words("how what why when where who which whose")
GENERIC_HEADINGS = _words(
    "abstract acknowledgements acknowledgments aim aims appendix authors availability background"
    " bugs changelog conclusion conclusions contents contributing copyright description diagnostics"
    " discussion environment errors example examples faq files findings history installation"
    " introduction keywords license limitations methods motivation name notes objective objectives"
    " options output overview parameters prerequisites purpose readme references related"
    " requirements results returns summary synopsis table troubleshooting usage"
) | _words(
    "exit status,external links,further reading,getting started,materials and methods,"
    "reporting bugs,return value,return values,see also,table of contents,user commands",
    ",",
)
_ADDRESS = (
    r"\b\w+://\S+|(?<!\S)[^\s@]++@\S+\.\S+|(?<!\S)-{1,2}\w[\w-]*(?:=\S*)?|(?<!\S)[~.]?/[\w./-]+"
)
_ADDRESSES = re.compile(_ADDRESS)
_CODE_SPANS = re.compile(
    rf"^(?: {{0,3}})(```|~~~).*?(?:^(?: {{0,3}})\1|\Z)|`[^`\n]*`|{_ADDRESS}",
    re.DOTALL | re.MULTILINE,
)
_AROUND = "\"'“”‘’«».,;:!?*_-– \t\r\n"
_TOKEN = re.compile(r"[^\W\d_][^\W_]*(?:['’.&-][^\W_]+)*\.?")
_BREAK = re.compile(r"\n\s*\n|(?<!\bSt)(?<!\b[DMS]r)(?<!\bMrs)(?<=[.!?:;])\s+|[,;:()\[\]\"“”|]")
# Kind of an entity for which the recogniser returned different kinds.
UNSURE = "Name"

_KINDS = (UNSURE, "Place", "Person", "Organization", "Group", "Work", "Product", "Event",
          "Facility", "Law", "Language")  # fmt: skip
# Kind of an entity unknown to the recogniser.
PROPER = "Proper noun"

_OTHER_KINDS = ("Title", "Heading", "Manual", PROPER)


def tidy(surface: str) -> str:
    """Return a name with single spaces and without quotes, article or possessive."""
    words = surface.strip(_AROUND).split()
    while len(words) > 1 and words[0].casefold() in _LEADING:
        del words[0]
        words[0] = words[0].lstrip(_AROUND) or words[0]
    while len(words) > 1 and words[-1].casefold() in _INSIDE:
        del words[-1]
    return _POSSESSIVE.sub("", " ".join(words))


def is_name(text: str) -> bool:
    """Return whether a tidy text has the shape of a name: short, and no code, sentence or file."""
    words = fold(text).split()
    return (
        2 <= len(text) <= LONGEST_NAME
        and 1 <= len(words) <= 8
        and any(character.isalpha() for character in text)
        and not _CODE.search(text)
        and not _FILE.search(text)
        and not _SENTENCE_END.search(text)
        and not all(word in STOP_WORDS or word.isdecimal() for word in words)
    )


def is_proper(text: str) -> bool:
    """Return whether `text`, in a sentence, can be a name: has a capital, is no everyday word."""
    if not is_name(text) or not any(character.isupper() for character in text):
        return False
    words = fold(text).split()
    if len(words) == 1:
        numeral = _NUMERAL.fullmatch(text) is not None
        return not numeral and not is_everyday(words[0]) and (len(words[0]) > 3 or text.isupper())
    return _has_capitals(text) or not all(map(is_everyday, words))


def title_names(title: str, *files: str | None) -> tuple[str, ...]:
    """Return the names of a document by its title, which is first; () if generic, code or a file.

    `files`: names of the document's file. Further names omit parentheses and article.
    """
    whole = " ".join(title.split())
    folded = fold(whole)
    if not whole or len(whole) > LONGEST_TITLE or _FILE.search(whole) or is_generic(folded):
        return ()
    for file in files:
        stem = (file or "").rsplit("/", 1)[-1]
        same = stem and folded in (fold(stem), fold(stem.rsplit(".", 1)[0]))
        if same and whole == whole.lower() and not _COMMAND.fullmatch(whole):
            return ()
    short = " ".join(_PARENTHESIS.sub(" ", whole).split()).strip(" ,;:")
    if not _MANUAL_PAGE.fullmatch(whole) and (_CODE.search(short) or _CALL.search(whole)):
        return ()
    plain = _ARTICLE.sub("", short)
    return tuple(dict.fromkeys(form for form in (whole, short, plain) if fold(form)))


def heading_name(heading: str) -> str | None:
    """Return a heading's name; None for generic words, labels in capitals, questions and code."""
    name = tidy(_NUMBERING.sub("", heading.strip(" #\t")))
    words = fold(name).split()
    if not is_name(name) or is_generic(" ".join(words)) or words[0] in _ASKING:
        return None
    if words[0] in STOP_WORDS or (len(words) == 1 and is_everyday(words[0])):
        return None
    if name.isupper() and len(words) > 1:  # WINDOWS AND PANES is the label of a part
        return None
    return None if words[0].endswith("ing") and is_everyday(words[0]) else name


def is_generic(folded: str) -> bool:
    """Return whether a folded label is a generic heading or a single character."""
    return folded in GENERIC_HEADINGS or len(folded) < 2


def is_mention(surface: str) -> bool:
    """Return whether words that equal a name are a mention of it.

    Not single everyday words; two or three letters only in capitals; several everyday words ("World
    War") only capitalised.
    """
    words = fold(surface).split()
    if len(words) == 1:
        short = len(words[0]) <= 3 and words[0].isascii()
        return surface.isupper() if short else not is_everyday(words[0])
    return _has_capitals(surface) or not all(map(is_everyday, words))


def addresses(text: str) -> list[tuple[int, int]]:
    """Return the spans of options, addresses and paths, by start; these are not names."""
    return [match.span() for match in _ADDRESSES.finditer(text)]


def prose(text: str) -> str:
    """Replace code, options, addresses and paths by spaces, keeping all offsets."""
    return _CODE_SPANS.sub(lambda match: " " * len(match[0]), text)


def capitalised_names(text: str) -> Iterator[str]:
    """Yield the runs of capitalised words in a text as name candidates.

    Runs continue over "of", "van", "of the". Everyday first words and lines in capitals are
    skipped.
    """
    for line in _BREAK.split(prose(text)):
        if line.isupper() and len(line.split()) > 1:
            continue
        start = end = -1
        for i, token in enumerate(_TOKEN.finditer(line)):
            capital = token[0][0].isupper()
            touching = start >= 0 and not line[end : token.start()].strip(" \n\t&")
            # `tidy` removes these at the end
            if touching and (capital or token[0].casefold() in _INSIDE):
                end = token.end()
                continue
            yield from _proper(line[start:end])
            start = end = -1
            if capital and (i > 0 or not is_everyday(fold(token[0]))):
                start, end = token.span()
        yield from _proper(line[start:end])


def _proper(run: str) -> Iterator[str]:
    if is_proper(name := tidy(run)):
        yield name


def better_surface(first: str, other: str) -> str:
    """Return the better spelling, whatever the order: not in capitals, then capitalised."""
    return min(
        first, other, key=lambda text: (_is_in_capitals(text), not _has_capitals(text), text)
    )


def better_kind(kinds: Iterable[str | None]) -> str | None:
    """Return one of several kinds, independent of order; custom kinds come first; None for none.

    If the recogniser's kinds disagree, the kind is UNSURE.
    """
    distinct = {kind for kind in kinds if kind}
    standard = sorted(distinct.intersection(_KINDS))
    custom = sorted(distinct.difference(_KINDS, _OTHER_KINDS))
    others = [kind for kind in _OTHER_KINDS if kind in distinct]
    return next(iter([*custom, *([UNSURE] if len(standard) > 1 else standard), *others]), None)


def _is_in_capitals(text: str) -> bool:
    return text.isupper() and len(text) > 5


def _has_capitals(text: str) -> bool:
    words = [word for word in re.split(r"[\s-]+", text) if word]
    return all(
        word[:1].isupper() or word[:1].isdecimal() or word.casefold() in _INSIDE for word in words
    ) and any(word[:1].isupper() for word in words)


def is_definition(long: str, short: str) -> bool:
    """Return whether "long (SF)" defines an abbreviation, unlike option lists and code."""
    capitals = sum(character.isupper() for character in short)
    digits = any(character.isdecimal() for character in short)
    shouting = any(len(word) > 5 and word.isupper() for word in long.split())
    return capitals + digits >= 2 and is_name(long) and ". " not in long and not shouting
