"""What a sentence says, as far as counting can tell: stems, numbers, names, ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from docstokg.domain.text.quantities import Quantity, quantities
from docstokg.domain.text.words import CLAIM_STOP_WORDS, ID_IN_CLAIM, WORD, normalise

_NAME: Final = re.compile(r"[^\W\d_][\w\u0370-\u03ff]*(?:[-/+][\w]+)*")
_NEGATIONS_TEXT: Final = (
    "no not never neither nor none cannot without lack lacks lacking lacked absence absent fail "
    "fails failed failing unable nothing unlikely unrelated unaffected unchanged rarely hardly "
    "insufficient independent independently false incorrect disprove refute dispensable "
    "unnecessary unaltered nonsignificant insignificant neg"
)
NEGATIONS: Final = frozenset(_NEGATIONS_TEXT.split())
_OPPOSITES_TEXT: Final = (
    "increase/decrease increase/reduce increase/lower increase/diminish higher/lower high/low "
    "more/less more/fewer greater/less greater/smaller larger/smaller large/small "
    "positive/negative promote/inhibit promote/suppress promote/prevent promote/reduce "
    "activate/inhibit activate/suppress activate/repress activate/inactivate activate/deactivate "
    "induce/inhibit induce/suppress induce/prevent induce/reduce enhance/reduce enhance/impair "
    "enhance/inhibit enhance/attenuate enhance/suppress enhance/decrease upregulate/downregulate "
    "stimulate/inhibit stimulate/suppress improve/impair improve/worsen improve/reduce "
    "better/worse longer/shorter long/short gain/loss sensitive/resistant susceptible/resistant "
    "sensitivity/resistance susceptible/protect elevate/reduce elevate/decrease elevate/lower "
    "accelerate/delay accelerate/slow facilitate/inhibit facilitate/impair strengthen/weaken "
    "stronger/weaker expand/shrink rise/fall success/fail common/rare common/uncommon major/minor "
    "beneficial/harmful benefit/harm same/different similar/different early/late first/last "
    "male/female men/women man/woman cause/prevent aggravate/alleviate exacerbate/ameliorate "
    "worsen/ameliorate effective/ineffective extend/shorten dominant/recessive benign/malignant "
    "acute/chronic internal/external import/export open/close allow/prohibit allow/forbid "
    "true/false maximum/minimum best/worst presence/absence present/absent methylate/demethylate "
    "excitatory/inhibitory hyperpolarize/depolarize stable/unstable stabilize/destabilize "
    "young/old younger/older adult/child protect/damage required/dispensable "
    "necessary/dispensable essential/dispensable overexpress/knockdown raise/lower raise/reduce "
    "boost/reduce support/oppose win/lose buy/sell profit/loss mild/severe "
    "associated/unassociated "
    "related/unrelated dependent/independent equal/unequal "
    "separate/shared separate/common enable/disable show/hide include/exclude "
    "create/delete add/remove keep/delete allow/deny upload/download "
    "encrypt/decrypt compress/decompress mount/unmount lock/unlock append/prepend "
    "append/overwrite install/uninstall optional/mandatory optional/required "
    "ascending/descending synchronous/asynchronous"
)
_OPPOSITES: Final = _OPPOSITES_TEXT.split()
_ENDINGS: Final = (
    "ivities|ivity|izations|isations|ization|isation|fulness|ousness|iveness|ational|ations|ically|"
    "ities|ation|ments|ating|ators|ement|ingly|edly|ator|ates|ated|ness|ment|ible|able|ical|ance|"
    "ence|ency|ancy|ives|ions|ings|ally|ity|ize|ise|ied|ies|ive|ion|ing|ant|ent|ous|ate|ers|est|"
    "ed|es|ly|al|er|ic|or|iv|(?<!s)s|e|y"
)
_SHORTEST_STEM: Final = 3
_ENDED: Final = re.compile(rf"(.{{{_SHORTEST_STEM},}}?)(?:{_ENDINGS})")
"""What is left of a word without its longest ending: the shortest of at least three letters."""

_IRREGULAR_TEXT: Final = (
    "rise/rose/risen fall/fell/fallen take/took/taken give/gave/given begin/began/begun keep/kept "
    "make/made write/wrote/written run/ran hold/held send/sent build/built lose/lost win/won "
    "know/knew/known grow/grew/grown show/shown speak/spoke/spoken break/broke/broken "
    "choose/chose/chosen drive/drove/driven drink/drank/drunk eat/ate/eaten buy/bought "
    "bring/brought think/thought teach/taught catch/caught sell/sold tell/told pay/paid lead/led "
    "feed/fed sit/sat stand/stood meet/met get/got come/came become/became go/went/gone "
    "see/seen do/did/done hide/hidden forget/forgot throw/threw/thrown fly/flew/flown "
    "draw/drew/drawn sleep/slept spend/spent lend/lent mean/meant deal/dealt sing/sang/sung "
    "sink/sank/sunk swim/swam ring/rang wear/wore/worn tear/tore/torn steal/stole shake/shook"
)
IRREGULAR: Final = {
    form: base
    for verb in _IRREGULAR_TEXT.split()
    for base, *forms in (verb.split("/"),)
    for form in forms
}


@dataclass(frozen=True, slots=True)
class Wording:
    """The countable content of one sentence.

    `stems`: content stems in order. `names`: folded names (capitals inside, or a capital after
    the first word).
    """

    stems: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    names: frozenset[str]
    ids: frozenset[str]


def stem(word: str) -> str:
    """Return a crude English stem of a folded word; equal for most inflections, never empty.

    Cruder than `folding.singular`, which only undoes plurals: a name must stay one.

    Longest suffix first, at least three letters stay; applied twice, so that `activations`,
    `activated` and `active` meet. Words with digits are left as they are.
    """
    return _stem(word) if word.isalpha() and word.isascii() else word


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    word = IRREGULAR.get(word, word)
    for _ in range(2):
        if ended := _ENDED.fullmatch(word):
            word = ended[1]
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word


def _pairs() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for pair in _OPPOSITES:
        left, right = (stem(word) for word in pair.split("/"))
        table.setdefault(left, set()).add(right)
        table.setdefault(right, set()).add(left)
    return {key: frozenset(partners) for key, partners in table.items()}


OPPOSITES: Final = _pairs()


@lru_cache(maxsize=8192)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of all words that are no stop words, in order."""
    return tuple(
        stem(word) for word in WORD.findall(normalise(text)) if word not in CLAIM_STOP_WORDS
    )


# As many sentences as a few hundred answers hold: a server meets new questions without end.
@lru_cache(maxsize=4096)
def read(text: str) -> Wording:
    """Read one sentence."""
    folded = normalise(text)
    words = WORD.findall(folded)
    stems = tuple(stem(word) for word in words if word not in CLAIM_STOP_WORDS)
    return Wording(stems=stems, quantities=quantities(text), names=names(text), ids=ids(text))


def ids(text: str) -> frozenset[str]:
    """Return the identifiers (HP:0001250) that a text holds, written with a colon."""
    return frozenset(item.upper().replace("_", ":") for item in ID_IN_CLAIM.findall(text))


def names(text: str) -> frozenset[str]:
    """Return the folded names in one sentence.

    A name has a capital or a digit inside (mTOR, p53, IL-6, NVIDIA), or begins with a capital
    and is not the sentence's first word.
    """
    folded_names: set[str] = set()
    first = True
    for match in _NAME.finditer(text):
        word = match[0]
        inner = any(char.isupper() or char.isdigit() for char in word[1:])
        if len(word) > 1 and (inner or (word[0].isupper() and not first)):
            folded = normalise(word)
            if folded not in CLAIM_STOP_WORDS:
                folded_names.add(folded)
        first = False
    return frozenset(folded_names)
