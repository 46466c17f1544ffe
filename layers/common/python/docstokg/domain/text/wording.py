"""What a sentence says, as far as counting can tell: stems, numbers, names, ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from docstokg.domain.text.quantities import Quantity, quantities
from docstokg.domain.text.words import ID_IN_CLAIM, STOP_WORDS, WORD, in_pairs, normalise, stem

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


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Map the stem of each word that has opposites to their stems."""
    table: dict[str, set[str]] = {}
    for pair in _OPPOSITES:
        left, right = (stem(word) for word in pair.split("/"))
        table.setdefault(left, set()).add(right)
        table.setdefault(right, set()).add(left)
    return {key: frozenset(partners) for key, partners in table.items()}


@lru_cache(maxsize=8192)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of all words but stop words, in order; two letters each of solid scripts."""
    words = chain.from_iterable(
        (run,) if run.isascii() else in_pairs(run) for run in WORD.findall(normalise(text))
    )
    return tuple(stem(word) for word in words if word not in STOP_WORDS)


# As many sentences as a few hundred answers hold: a server meets new questions without end.
@lru_cache(maxsize=4096)
def read(text: str) -> Wording:
    """Read one sentence."""
    return Wording(content_stems(text), quantities(text), names(text), ids(text))


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
            if folded not in STOP_WORDS:
                folded_names.add(folded)
        first = False
    return frozenset(folded_names)
