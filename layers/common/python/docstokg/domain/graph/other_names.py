"""Other names of a question's entities."""

from collections.abc import Mapping, Sequence

from docstokg.domain.graph.linking import Linker
from docstokg.domain.text.folding import alias_keys
from docstokg.domain.text.query_terms import content_words

MAX_WORDS = 32


def other_words(question: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return at most 32 content words of other names that the question lacks.

    `names`: by entity id, the preferred name first; ValueError for an entity without. Only entities
    of which the question uses an unambiguous other name.
    """
    linker = Linker(
        (key, entity, preferred)
        for entity, (name, *synonyms) in names.items()
        for key, preferred in alias_keys(entity, name, synonyms)
    )
    matches = linker.find(question, lower_case=True)
    once = [match for match in matches if not match.nested and len(match.entity_ids) == 1]
    named = [match.entity_ids[0] for match in once if not match.preferred]
    every = " ".join(name for entity in dict.fromkeys(named) for name in names[entity])
    words, in_question = content_words(every), set(content_words(question))
    return " ".join([word for word in dict.fromkeys(words) if word not in in_question][:MAX_WORDS])
