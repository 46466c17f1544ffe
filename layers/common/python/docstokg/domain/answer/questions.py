"""What a question asks for, and what a unit is worth for being of that kind."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from docstokg.contracts.state import Block
from docstokg.domain.answer.quoting import ITEM, Quotation, as_read
from docstokg.domain.answer.units import Unit, units
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.wording import content_stems, ids, read
from docstokg.domain.text.words import normalise

OPTION_NAME: Final = re.compile(r"(?<![\w-])-{1,2}[A-Za-z0-9][\w-]*")
_HANDLE: Final = 0.1
_NAME: Final = 0.3
_AMOUNT: Final = 0.1
_AMOUNTLESS: Final = 0.2
_CALLED: Final = 0.1
_WHAT_IT_IS_COSTS: Final = 0.5
_ASKED_FOR: Final = 0.15
_LISTED: Final = 0.3
_CODE_COSTS: Final = 0.15
_DEFINED: Final = 0.2
_LEAST_NEW: Final = 0.25
# Such a question is answered by an option or by code.
_HOW: Final = re.compile(
    r"\b(?:how (?:do|can|to)\b|(?:which|what) (?:[\w-]{1,30} )?(?:option|flag|switch)\b)", re.I
)
# "tr - translate or delete characters": the line of a manual that says what a command is.
# After an en dash a sentence of prose may begin: a definition.
_WHAT_IT_IS: Final = re.compile(
    r"\s*(?:NAME\s+)?([\w.+-]{1,40}) +(?:[-\u2013\u2014]{1,2} +[a-z]|--? +[A-Z])"
)
# "description: Remove a package": the same in the lines above a page of Markdown.
_OF_PAGE: Final = re.compile(r"\s*(?:description|summary|title): ", re.I)
# "sed [-n] [--quiet] [-e script] ...": how a command is called tells what nothing in it does.
_SYNOPSIS: Final = re.compile(r"\[-{1,2}\w")
_SYNOPSIS_OPTIONS: Final = 3
_SYNOPSIS_ASKED: Final = re.compile(r"\b(?:synopsis|syntax|usage|arguments|called)\b", re.I)
# What a person wants to do, but not what nearly every answer does.
_VERB_ASKED: Final = re.compile(
    r"\bhow (?:to|(?:do|can|should|would|could) (?:i|we|you|one)) (\w+)", re.I
)
_ANY_VERB_TEXT: Final = (
    "add allow change check compare configure control differentiate distinguish do enable find get "
    "give handle keep know let make manage obtain see set stop switch take tell turn undo use view "
    "want work write"
)
ANY_VERB: Final = frozenset(content_stems(_ANY_VERB_TEXT))
_HOW_MUCH: Final = re.compile(
    r"\bhow (?:long|many|much|old|often|large|big|far|high|common)\b"
    r"|\b(?:which|what) (?:year|age|percentage|proportion|dose|number)\b",
    re.I,
)
_AMOUNT_IN_WORDS: Final = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozens?|hundreds?|thousands?|millions?"
    r"|half|third|quarter|once|twice|most|few|several|many|rare(?:ly)?|(?:un)?common(?:ly)?|often"
    r"|seldom|(?:in)?frequent(?:ly)?|usual(?:ly)?|always|never|daily|weekly|monthly|yearly|annual(?:ly)?"
    r"|lifelong|until)\b",
    re.I,
)
_NAME_ASKED: Final = re.compile(
    r"\b(?:(?:an)?other names?|synonyms?|abbreviation|term for|called|known as|stands? for)\b", re.I
)
_NAME_GIVEN: Final = re.compile(r"\b(?:called|known as|synonyms?|stands for|abbreviated)\b", re.I)
# Of a question with one space between words: more would be tried in every way to share them out.
_BOTH: Final = re.compile(
    r"\b(?:differences? between|compare|how (?:do|does)(?= .* differ from)) (.+?)"
    r" (?:and|with|to|versus|vs|differ from)\b\.? ?(.+)",
    re.I,
)
_VERSUS: Final = re.compile(r"(.+?) (?:versus|vs)\b\.? ?(.+)", re.I)
_TERM_ASKED: Final = re.compile(
    r"(?:what(?: is|'s| are| does| do)|define|meaning of|definition of)\s+(?:an?\s+|the\s+)?"
    r"(?:meaning of\s+|definition of\s+)?(.{2,60}?)(?:\s+(?:mean|stand for))?\s*[?.]?\s*",
    re.I,
)
_WHAT_ASKED: Final = re.compile(
    r"\bwhat(?:'s| is| are| does| do| kind| sort)\b|\bwhich (?:command|tool|program)\b", re.I
)
# "A scope is a way of ...": its subject, and after it what says what that is.
_IS: Final = re.compile(
    r"\W{0,4}(?:an?\s|the\s|each\s|every\s)?([^.,;:()]{2,60}?)(?:\s\([^()]{1,60}\))?,?\s"
    r"(?:(?:is|are|was|were)\s(?:an?|the|one|any|those|when|where|what|how|defined\s(?:as|to\sbe))"
    r"|means?|refers?\sto|stands?\sfor|consists?\sof|(?:provides|defines|represents)\s(?:an?|the))\b",
    re.I,
)
# "What does audit do?": "This command asks ...", "The audit command asks ...".
_DOES_ASKED: Final = re.compile(r"\bwhat (?:does|do)\b.*\bdo\b", re.I)
_DOER: Final = re.compile(r"([^\s?]{1,60}) do[\s?]*\Z", re.I)
_DOES: Final = re.compile(
    r"\W{0,4}(?:this |the (?:[\w`.:-]{1,40} ){1,3})"
    r"(?:class|command|function|method|module|option|program|script|tool|utility) \w+s\b"
    r"|\W{0,4}when called\b",
    re.I,
)
# "A is like B except that ...": says of both sides how they differ.
DIFFERS: Final = re.compile(
    r"\b(?:except|unlike|whereas|while|differ(?:s|ence|ences|ent)?|similar|rather than|instead of"
    r"|in contrast|but)\b",
    re.I,
)
_A_THING: Final = re.compile(r"An?\s(?:[\w-]+\s){0,3}(?!is\b|are\b|can\b|must\b)")
_KINDS: Final = frozenset(
    content_stems("class interface function method module about overview introduction what")
)
# "This is called a linked worktree".
_IS_CALLED: Final = re.compile(
    r"\b(?:called|known\sas|termed|referred\sto\sas)\s(?:an?\s|the\s)?((?:[^\s.,;:()]+\s?){1,4})",
    re.I,
)
_LONGEST_TERM: Final = 4
_LONGEST_COMPARED: Final = 200
# `full` of `--leak-check=full`.
_OPTION_VALUE: Final = re.compile(r"(?<![\w-])-{1,2}[A-Za-z0-9][\w-]*=([\w.-]+)")
_THIS_OPTION: Final = re.compile(r"\bthis (?:option|flag|switch)\b", re.I)
_OPTION_ASKED: Final = re.compile(
    r"\b(?:which|what) (?:[\w.+-]{1,30} ){0,2}(?:options?|flags?|switch|parameter)\b", re.I
)
_SEVERAL_ASKED: Final = re.compile(
    r"\bwhat are\b|\b(?:which|what) (?:[\w-]{2,30} )?[\w-]{2,30}[^\W_s]s (?:are|do|does|can|have)\b"
    r"|\b(?:kinds|types|sorts|steps|rules|reasons|phases|stages) (?:of|to|for)\b",
    re.I,
)
# "First, let's take a look at the rules": tells what will come.
_ANNOUNCES: Final = re.compile(
    r"\b(?:let['\u2019]s|let us|we['\u2019]ll|we will|we are going to) (?:\w+ ){0,2}"
    r"(?:look|see|discuss|talk|cover|explore|go|start|learn|walk|examine|turn|dive)\b"
    r"|\b(?:this|the (?:next|following)) (?:section|chapter|page|document|guide|article|appendix) "
    r"(?:describes|explains|covers|discusses|will|is about|shows|contains|lists)\b"
    r"|\b(?:keep|continue) reading\b|\bread on\b"
    r"|\A\W*the following (?:sequence|example|command|code|listing|script|snippet)s? [^:]*\.\s*\Z"
    r"|\bthe following(?: [\w-]+){0,3}[.:]?\s*\Z",
    re.I,
)
# "The format is described in Suppressing errors": names the place of the answer.
_REFERS: Final = re.compile(
    r"\b(?:is|are) (?:\w+ )?(?:described|explained|discussed|covered|documented|detailed) "
    r"(?:below|above|later|elsewhere|here"
    r"|(?:in|under|by|at) (?:the |an? |its |their )?(?:\w+ ){0,3}?"
    r"(?:sections?|chapters?|appendix|manual|pages?|documentation|guide|reference|document|file)\b"
    r"|(?-i:in (?:[A-Z][\w-]*)(?: [\w-]+){0,4}\.?\Z))"
    r"|\A\W*(?:for (?:more|further|full|complete|details|a )[^.]{0,60}, )?(?:please )?"
    r"(?:see|refer to) |\Aif [^.]{5,150}, (?:please )?(?:see|refer to) ",
    re.I,
)
# "Which variable holds ...?" is answered by a name as programs write them.
_THING_ASKED: Final = re.compile(
    r"\b(?:which|what) (?:[\w.+-]{1,30} ){0,2}?(?:variable|function|method|class|module|property"
    r"|policy|directive|keyword|setting|key|field|attribute|decorator|macro|constant|exception|file)\b",
    re.I,
)
_THING: Final = re.compile(
    r"`|\w_\w|\w\(\)|\b[A-Z]{2,}\d|\b[a-z]+[A-Z]|\w\.[a-z]{2,4}\b|\b[A-Z]{2,}\b|(?<![\w-])-{1,2}[a-z]"
)
_OF_PROGRAMS: Final = re.compile(r"`|\w_\w|\w\(\)|::")
# `find_package`, `std::sort`, `<CONFIG>` of `$<CONFIG>`.
_CODED: Final = re.compile(
    r"\$<\w{1,60}|\w{1,60}(?:::\w{1,60})+|[^\W_]{1,60}(?:_[^\W_]{1,60})+(?:\.\w{1,60})?"
    r"|\b[a-z]\w{0,60}\.(?!(?:js|json|md|txt|py|html?|xml|ya?ml|toml|[ch]|g|e|org|com)\b)[A-Za-z]\w{1,60}"
    r"|\b[a-z]{2,30}[A-Z][a-z]\w{0,60}"
)
_LOADS: Final = re.compile(
    r"(?:import|from|include|#include|using|require|use)\b"
    r"|(?:const|let|var) [^=]{1,80}= require\(|[/#'\"]"
)
_CODE_ASKED: Final = re.compile(
    r"\bhow\b|\b(?:commands?|codes?|examples?|syntax|scripts?|lines?|calls?|called|usage|type|run|write"
    r"|written|output|looks?|formats?|configur\w+|files?|queries|query)\b",
    re.I,
)
# "* Returns: {Timeout} a reference", "* `path` {string}".
_SIGNATURE: Final = re.compile(r"\W{0,4}(?:returns?: ?|`?[\w.]{1,40}`? )?\{[^{}\n]{1,80}\}", re.I)
# Code that is shown to be shunned.
_SHUNNED: Final = re.compile(
    r"\b(?:this is (?:wrong|incorrect|broken)|do(?: not|n't) do this)\b", re.I
)
_WHERE: Final = re.compile(r"\bwhere\b|\bwhich (?:section|chapter|page|manual|document|file)", re.I)
_ASKING: Final = frozenset(
    content_stems("another name called term means kind type difference example way list happens")
)
# "Which option shows ...": what nearly every option does.
_ASKING_OPTION: Final = frozenset(content_stems("option flag switch show print display"))


@dataclass(frozen=True, slots=True)
class Question:
    """The question's words with their rarity, and the titles of blocks that it names.

    `sides`: the words that only the one and only the other side of a comparison has. `doer`: what
    it asks the doings of, by the last word ("what does systemctl isolate do?").
    """

    weights: Mapping[str, float]
    subjects: frozenset[frozenset[str]]
    how: bool
    amount: bool
    name: bool
    what: bool
    term: frozenset[str]
    options: frozenset[str]
    values: frozenset[str]
    option_asked: bool
    several: bool
    thing: bool
    where: bool
    called: bool
    verb: frozenset[str]
    sides: tuple[frozenset[str], ...]
    coded: frozenset[str]
    code: bool
    does: bool
    doer: frozenset[str]

    @classmethod
    def of(cls, query: str, blocks: Sequence[Block]) -> "Question":
        """Read a question beside the passages that may answer it."""
        stems = stems_of(query)
        option_asked = _OPTION_ASKED.search(query) is not None
        terms = stems - _ASKING - (_ASKING_OPTION if option_asked else frozenset()) or stems
        sentences = [
            frozenset(content_stems(block.text[start:end]))
            for block in blocks
            for start, end in borders(block)
        ]
        held = Counter(stem for stems in sentences for stem in stems & terms)
        weights = {stem: math.log(1 + len(sentences) / (1 + held[stem])) for stem in terms}
        subjects = (frozenset(content_stems(block.subject)) for block in blocks)
        return cls(
            weights,
            frozenset(name for name in subjects if name and name <= stems),
            _HOW.search(query) is not None,
            _HOW_MUCH.search(query) is not None,
            _NAME_ASKED.search(query) is not None,
            _WHAT_ASKED.search(query) is not None,
            asked_term(query),
            frozenset(OPTION_NAME.findall(query)),
            stems_of(" ".join(_OPTION_VALUE.findall(query))),
            option_asked,
            _SEVERAL_ASKED.search(query) is not None,
            # Of programs: elsewhere a method is what a doctor does.
            _THING_ASKED.search(query) is not None
            and any(_OF_PROGRAMS.search(block.text) for block in blocks),
            _WHERE.search(query) is not None,
            _SYNOPSIS_ASKED.search(query) is not None,
            _verb_asked(query),
            _sides(query),
            _coded(query),
            _CODE_ASKED.search(query) is not None,
            _DOES_ASKED.search(query) is not None,
            asked_doer(query),
        )

    def wish(self, unit: Unit, text: str) -> float:
        """Say how much more a unit is worth for being of the kind the question asks for.

        0.3 for the option that is named, 0.3 more where it asks what that does, 0.1 more for the
        value it names (`--check=full`), and nothing else counts then. Otherwise what it is
        (`_of_kind`), what it says of an option (`_of_option`) or of a name as programs write them
        (`_of_name`), and less where it does not answer at all (`_beside`).
        """
        if self.options and self.options & frozenset(OPTION_NAME.findall(unit.option)):
            return _NAME * (1 + bool(self.term)) + _CALLED * bool(self.values & stems_of(text))
        more = self._of_kind(unit, text) + self._of_option(unit, text) + self._of_name(unit, text)
        return more - self._beside(unit, text)

    def _of_kind(self, unit: Unit, text: str) -> float:
        """Count what the question asks for: a definition, a list, an amount, another name.

        Up to 0.3 for a row, or a definition, of what the question asks about, 0.3 more where it
        asks what just that is; 0.6 for the lines of the command whose doings it asks; 0.2 for the
        sentence that says what a term is or a command does, 0.3 for a list; 0.1 for an amount where
        it asks how much, 0.2 less for what holds none in figures or words, and 0.1 for another name
        where it asks for one.
        """
        more = _CALLED * (self.name and _NAME_GIVEN.search(text) is not None)
        head = stems_of(unit.head)
        if unit.kind == "command":
            more += 2 * _NAME * (head == self.doer)
        elif head and not unit.option and head <= self.weights.keys():
            more += _NAME * (min(1.0, 2 * self.share(head)) + (head == self.term))
        if self.does and _DOES.match(text):
            more += _DEFINED
        if self.term and (_explains(self.term, text) or self._entitled(unit, text)):
            more += _DEFINED
        if self.several and len(ITEM.findall(text)) > 1:
            more += _LISTED
        if self.amount:
            amount = bool(read(text).quantities)
            more += _AMOUNT * amount - _AMOUNTLESS * (
                not amount and not _AMOUNT_IN_WORDS.search(text)
            )
        return more

    def _of_option(self, unit: Unit, text: str) -> float:
        """Count options and code where the question asks how, or which option.

        0.1 for either where it asks how, 0.15 for an option where it asks for one, up to 0.3 for
        the one whose name it says; what an option does is said first: 0.15 less for what follows;
        "this option", torn from its name, is none: 0.2 less.
        """
        handle = unit.kind == "code" or (unit.option and not unit.lead)
        more = _HANDLE if self.how and handle else 0.0
        if self.option_asked and (unit.option or OPTION_NAME.search(text)):
            more += _ASKED_FOR
        if not (self.option_asked or self.how):
            return more
        if not unit.option and _THIS_OPTION.search(text):
            more -= _AMOUNTLESS
        if not unit.lead:
            # `--decode` where the question says "decode".
            more += _NAME * self.share(stems_of(unit.option))
        if unit.option and unit.lead == unit.option:
            more -= _CODE_COSTS
        return more

    def _of_name(self, unit: Unit, text: str) -> float:
        """Count names as programs write them.

        0.15 for what stands below the name that is asked about, 0.3 less for its signature; 0.2
        less for what stands below another name, 0.3 for what names none of those asked about, 0.2
        for what names nothing where the question asks which variable, function or file it is.
        """
        more = -_AMOUNTLESS * (self.thing and not _THING.search(f"{unit.lead} {text}"))
        if not self.coded:
            return more
        titled = _coded(unit.heading)
        if self.coded & titled:
            more += _ASKED_FOR - _NAME * (_SIGNATURE.match(text) is not None and not self.called)
        elif titled:
            more -= _AMOUNTLESS
        if not self.coded & _coded(f"{unit.heading} {unit.head} {unit.lead} {text}"):
            more -= _NAME
        return more

    def _beside(self, unit: Unit, text: str) -> float:
        """Say how much less a unit is worth that does not answer at all.

        0.5 for the line that says what a command or page is, where the question names it and asks
        for something else, for what announces an answer, for what names its place where that is
        not asked for, for a synopsis, and for code that is told not to be written. 0.15 for code
        where none is asked for, or that only loads something.
        """
        less = 0.0
        what_it_is = None if self.what else _WHAT_IT_IS.match(text)
        if what_it_is is not None and stems_of(what_it_is[1]) <= self.weights.keys():
            less += _WHAT_IT_IS_COSTS
        if unit.head and _OF_PAGE.match(text):
            less += _WHAT_IT_IS_COSTS if not self.what else _CODE_COSTS * (not self.does)
        if (
            _ANNOUNCES.search(text)
            or (not self.where and _REFERS.search(as_read(text)))
            or (unit.kind == "code" and _SHUNNED.search(text))
            or (not self.called and len(_SYNOPSIS.findall(text)) >= _SYNOPSIS_OPTIONS)
        ):
            less += _WHAT_IT_IS_COSTS
        if unit.kind == "code" and (not self.code or _only_loads(text)):
            less += _CODE_COSTS
        return less

    def _entitled(self, unit: Unit, text: str) -> bool:
        """Tell whether "A pool of ..." stands below the title "Class: Pool"."""
        titled = stems_of(unit.heading) - _KINDS == self.term
        return titled and _A_THING.match(text) is not None

    def is_about(self, stems: frozenset[str], document: frozenset[str]) -> bool:
        """Tell whether what says how to do something has more of it than its document's name.

        All of tar's manual is about tar, and nothing of it answers "how do I resize images with
        tar?". What asks for no doing may be answered by just a name.
        """
        other_stems = self.weights.keys() - document
        about = not other_stems or bool(other_stems & stems)
        return about or not self.how or bool(self.options)

    def adds(self, first: "Quotation", other: "Quotation") -> bool:
        """Tell whether a second quotation holds words of the question that the first lacks."""
        return self.share(other.stems - first.stems) >= _LEAST_NEW

    def share(self, stems: frozenset[str]) -> float:
        """Give the part of the question's words, by rarity, that is among `stems`."""
        total = sum(self.weights.values())
        return sum(w for stem, w in self.weights.items() if stem in stems) / total if total else 0.0


def _only_loads(code: str) -> bool:
    """Tell whether code does nothing yet: it loads what the code below it uses."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return all(_LOADS.match(line) for line in lines)


def _explains(term: frozenset[str], text: str) -> bool:
    """Tell whether a sentence says what just the term is, or what is called so."""
    stated = _IS.match(text)
    if stated is not None and stems_of(stated[1]) == term:
        return True
    called = (match[1].split() for match in _IS_CALLED.finditer(text))
    return any(stems_of(" ".join(words[: len(term)])) == term for words in called)


def _coded(text: str) -> frozenset[str]:
    """Return the names in a text that are written as only programs write them."""
    return frozenset(name.casefold() for name in _CODED.findall(text))


def _verb_asked(query: str) -> frozenset[str]:
    """Return the stem of what a question wants to do, none where nearly any answer does it."""
    match = _VERB_ASKED.search(query)
    return frozenset(content_stems(match[1])) - ANY_VERB if match else frozenset()


def asked_term(query: str) -> frozenset[str]:
    """Return the stems of the term that a question wants explained, none for other questions."""
    match = _TERM_ASKED.fullmatch(query.strip())
    if match is None or len(match[1].split()) > _LONGEST_TERM:
        return frozenset()
    return stems_of(match[1])


def asked_doer(query: str) -> frozenset[str]:
    """Return the stem of what a question wants to know the doings of, none for other questions."""
    match = _DOER.search(query) if _DOES_ASKED.search(query) else None
    return stems_of(match[1]) if match else frozenset()


def defines(term: frozenset[str], text: str, spans: tuple[tuple[int, int], ...]) -> bool:
    """Tell whether a row, a glossary's line or a definition in a passage explains just the term."""
    folded = normalise(text)
    if not term or any(name[:3] not in folded for name in term):
        return False
    parts = units(text, spans or sentence_spans(text))
    return any(unit.head and stems_of(unit.head) == term for unit in parts)


@dataclass(frozen=True, slots=True)
class Topic:
    """What a question wants explained: a term, options, names as programs write them.

    `doer`: as in `Question`. `words`: those of a question for an option, which the option's long
    name may consist of.
    """

    term: frozenset[str]
    doer: frozenset[str]
    options: frozenset[str]
    coded: frozenset[str]
    words: frozenset[str]

    @classmethod
    def of(cls, query: str) -> "Topic":
        """Read it from a question."""
        words = stems_of(query) if _OPTION_ASKED.search(query) else frozenset[str]()
        options = frozenset(OPTION_NAME.findall(query))
        return cls(asked_term(query), asked_doer(query), options, _coded(query), words)

    def is_explained(self, text: str, spans: tuple[tuple[int, int], ...]) -> bool:
        """Tell whether a passage has a row, a definition or an option's lines of just that."""
        if any(defines(term, text, spans) for term in (self.term, self.doer)):
            return True
        folded = text.casefold()
        if not self.words and not any(name.casefold() in folded for name in self._names()):
            return False
        return any(self._is_of(unit) for unit in units(text, spans or sentence_spans(text)))

    def _names(self) -> frozenset[str]:
        return self.options | self.coded

    def _is_of(self, unit: Unit) -> bool:
        if not unit.head:
            return False
        if not unit.option:
            return bool(self.coded & _coded(unit.head))
        names = OPTION_NAME.findall(unit.head)
        long = stems_of(" ".join(name for name in names if name.startswith("--")))
        return bool(self.options & set(names)) or (bool(long) and long <= self.words)


def names_document(query: str, document_name: str | None) -> bool:
    """Tell whether a question has all words of a document's name, its ending aside."""
    name = stems_of(PurePosixPath(document_name or "").stem)
    return bool(name) and name <= stems_of(query)


def in_their_words(query: str, blocks: Sequence[Block]) -> str:
    """Return the question with the names that the blocks have instead of its own."""
    pairs = [other for block in blocks for other in block.other_names]
    if not pairs:
        return query
    names = {pair.in_question: pair.in_passage for pair in pairs}
    longest_first = sorted(names, key=len, reverse=True)
    any_name = "|".join(re.escape(name) for name in longest_first)
    return re.sub(rf"(?<!\w)(?:{any_name})(?!\w)", lambda match: names[match[0]], query)


def _sides(query: str) -> tuple[frozenset[str], ...]:
    spaced = " ".join(query.split())
    match = _BOTH.search(spaced) or _VERSUS.match(spaced)
    if match is None:
        return ()
    one, other = (stems_of(side) for side in match.groups() if side)
    return (one - other, other - one) if one - other and other - one else ()


def borders(block: Block) -> tuple[tuple[int, int], ...]:
    """Return where the sentences of a passage stand, found here where they are not stored."""
    return block.sentences or sentence_spans(block.text)


# Ground and synthesize read the same passages, and headings and names stand above many units.
@lru_cache(maxsize=2048)
def stems_of(text: str) -> frozenset[str]:
    """Return what a text is compared by: the stems of its words, and its ids."""
    return frozenset(content_stems(text)) | ids(text)
