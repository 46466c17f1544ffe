"""Rewriting of follow-up questions by rules."""

import re
from collections.abc import Sequence

from docstokg.contracts.request import Turn
from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.words import STOP_WORDS

# Maximum words added to a follow-up.
MOST_ADDED = 12

# Maximum characters per added word.
LONGEST_ADDED = 64

# Characters; longer questions are self-contained. Keeps the result below the contract's 4,096.
LONGEST_FOLLOW_UP = 1024

_READ = 4096
_TOKEN = re.compile(r"[^\W_]+(?:[-:_][^\W_]+)*")
_ANAPHORA = frozenset(
    """
    he him his himself she her hers herself they them their theirs themselves it its itself this
    that these those there ones
    """.split()  # noqa: SIM905
)
_BE = frozenset(("are", "is", "was", "were"))
_CLAUSE = frozenset(("how", "that", "to", "what", "when", "where", "whether", "which"))
_BEGINNING = re.compile(r"\W*(?:(?:and|or|but)\b|(?:what|how)\s+about\b)", re.I)
# Content words; a longer question names its subject.
_FEW = 3
MOST_TURNS = 6
MOST_BYTES = 4096
# The turns take at most 1/SHARE of the context.
SHARE = 4


def whole_question(question: str, history: Sequence[tuple[str, str]]) -> str:
    """Return a follow-up with the missing words appended in brackets; other questions unchanged.

    `history`: (role, text) with role `user` or `assistant`, oldest first. At most 12 words come
    from the previous question, itself completed, and the names in its answer.
    """
    whole, answer = "", ""
    for role, text in history:
        if role == "user":
            whole, answer = _completed(text[:_READ], whole, answer), ""
        else:
            answer = text[:_READ]
    return _completed(question, whole, answer)


def lacks_subject(question: str) -> bool:
    """Return whether a question refers to something that it does not name."""
    if _BEGINNING.match(question):
        return True
    tokens = _TOKEN.findall(question)
    words = [token.casefold() for token in tokens]
    before = 0
    for at, word in enumerate(words):
        before += word not in STOP_WORDS
        if before == _FEW or _is_name(tokens, at):
            break
        if word in _ANAPHORA and _refers(words, at):
            return True
    if any(map(_is_informative, tokens)):
        return False
    content = [word for word in words if word not in STOP_WORDS]
    defined = len(words) > 1 and words[1] in _BE and not {"the", "a", "an"} & {*words}
    if {"a", "an"} & {*words} or (content and defined):
        return False
    return len(content) <= _FEW


def _completed(question: str, before: str, answer: str) -> str:
    if not before or len(question) > LONGEST_FOLLOW_UP or not lacks_subject(question):
        return question
    question_words = {token.casefold() for token in _TOKEN.findall(question)}
    names = {*_names(before), *_names(answer)}
    words: dict[str, str] = {}
    for token in (*_content(before), *_names(answer)):
        if token.casefold() not in question_words:
            words.setdefault(token.casefold(), token)
    # In text order, to keep the words of a name together; names are chosen first.
    chosen = sorted(words.values(), key=lambda token: token not in names)[:MOST_ADDED]
    added = [token[:LONGEST_ADDED] for token in words.values() if token in chosen]
    return f"{question} ({' '.join(added)})" if added else question


def _is_name(tokens: Sequence[str], at: int) -> bool:
    token = tokens[at]
    if len(token) < 2 or not token[0].isupper() or token.casefold() in STOP_WORDS:
        return False
    return at > 0 or any(map(str.isdecimal, token))


def _is_informative(token: str) -> bool:
    return not token.isdecimal() and len(token) > 1 and not is_everyday(token.casefold())


def _refers(words: Sequence[str], at: int) -> bool:
    around = {*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]}
    if words[at] == "there":
        return not around & _BE
    if words[at] == "it":
        return not (around & _BE and _CLAUSE.intersection(words[at + 1 :]))
    before = words[at - 1] if at else ""
    return words[at] != "that" or not before or (before != "it" and before in STOP_WORDS)


def _names(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    first = [token for token in tokens[:1] if _is_informative(token) and not token.islower()]
    return first + [tokens[at] for at in range(1, len(tokens)) if _is_name(tokens, at)]


def _content(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if token.casefold() not in STOP_WORDS]


def last_turns(turns: Sequence[Turn], max_tokens_context: int) -> tuple[Turn, ...]:
    """Return the last turns with text, oldest first.

    At most 6, together min(4,096, `max_tokens_context`) bytes, each truncated to a third of that.
    """
    remaining = limit = min(MOST_BYTES, max_tokens_context * 4 // SHARE)
    recent: list[Turn] = []
    for turn in reversed([turn for turn in turns if turn.content.strip()][-MOST_TURNS:]):
        content = turn.content.encode()[: limit // 3].decode("utf-8", "ignore")
        remaining -= len(content.encode())
        if remaining < 0:
            break
        recent.append(turn.model_copy(update={"content": content}))
    return tuple(reversed(recent))
