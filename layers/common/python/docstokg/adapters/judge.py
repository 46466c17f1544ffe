"""Language model verifier."""

from collections.abc import Callable, Sequence

from docstokg.contracts.completion import Completion
from docstokg.contracts.judgements import Judgement
from docstokg.domain.answer import judge
from docstokg.domain.deadline import Deadline
from docstokg.ports import Opinion, Pair

# `LanguageModel.complete`.
Complete = Callable[..., Completion]

MOST_QUOTES = 3


class Judge:
    """A `Verifier`; `complete` calls the language model."""

    def __init__(self, model: str, complete: Complete, threshold: float) -> None:
        self.name, self.threshold = f"llm:{model}", threshold
        self._model, self._complete = model, complete

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return one opinion per pair, 0 or 1; None: the reply omits the claim or its quotes.

        Raise errors as `LanguageModel.complete`, or `WrongAnswer`.
        """
        statements = [(pair.claim, _whole(pair.sources)) for pair in pairs]
        completion = self._complete(
            judge.messages(statements),
            model=self._model,
            temperature=0.0,
            max_tokens=judge.TOKENS_PER_STATEMENT * (len(pairs) + 1),
            deadline=deadline,
            schema=judge.SCHEMA,
        )
        return [_opinion(row) for row in judge.parse(completion.text, len(pairs), self.name)]


def _whole(sources: Sequence[str]) -> list[str]:
    return [
        source
        for source in sources
        if not any(source != other and source in other for other in sources)
    ]


def _opinion(row: Judgement | None) -> Opinion | None:
    if row is None:
        return None
    quotes = tuple(quote.strip() for quote in row.quotes[:MOST_QUOTES] if quote.strip())
    if row.verdict == "not_stated":
        return Opinion(0.0, 0.0)
    is_supported = float(row.verdict == "supported")
    return Opinion(is_supported, 1 - is_supported, quotes) if quotes else None
