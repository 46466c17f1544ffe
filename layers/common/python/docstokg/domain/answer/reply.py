"""Normalisation of model replies."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from importlib import resources
from pathlib import PurePath
from typing import Any

from docstokg.contracts.state import Block
from docstokg.domain.answer.citations import outside_code
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.prompt import printable, without_echo
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import FOREIGN, STOP_WORDS, WORD, normalise, stem

_THINKING = r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis)"
# A thought ends at its closing tag, whatever opened it, and at the channel of the final answer.
_THOUGHT_END = re.compile(
    rf"\A.*(?P<end></\s?{_THINKING}\s?>|\[/THINK\]|\u25c1/think\u25b7|assistantfinal"
    r"|<\|channel\|>\s*final\s*(?:<\|message\|>)?)",
    re.DOTALL | re.IGNORECASE,
)
_THOUGHT = re.compile(
    rf"(?:<\s?{_THINKING}\s?>|\[THINK\]|\u25c1think\u25b7|<\|channel\|>\s*(?:analysis|commentary)\b).*",
    re.DOTALL | re.IGNORECASE,
)
_TOOL_CALL = re.compile(
    r"<(?P<bar>\|?)(?P<tag>tools?|(?:tool|function)_(?:call|response|result)s?)(?P=bar)>"
    r".*?(?:<(?P=bar)/(?P=tag)(?P=bar)>|\Z)"
    r"|<(?:function=|invoke name=).*?(?:</(?:function|invoke)>|\Z)"
    r"|(?:\[TOOL_CALLS\]|<\|python_tag\|>)[^\n]*|```tool_c(?:ode|all)\b.*?(?:```|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_TEXT_END = re.compile(
    r"<\|(?:im_start|start|start_header_id)\|>\s?(?:assistant)?|<\|[a-z_]{2,30}\|>|\[/?INST\]|</?s>"
    r"|<\uff5c[^<>]{2,40}\uff5c>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>",
    re.IGNORECASE,
)
# Words that a looping model repeats three times or more.
_LOOP = re.compile(r"(?P<words>\b\w+(?:\W+\w+){0,7}?\W+)(?P=words){2,}(?:\w+\W+){0,8}\w*\W*\Z")
_CITE = re.compile(r"\\cite\{\s?(?P<rank>\d{1,4})\s?\}")
# Doubled or escaped brackets, or a link.
_DECORATED = re.compile(
    r"(?:\[\[|\\?\[)(?P<rank>\d{1,4})(?:\]\]|\\\]|\](?=\((?!\d)))(?:\((?!\d)[^()\s]{1,300}\))?"
)
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_SUPERSCRIPT = re.compile(rf"(?P<rank>[{_SUPERSCRIPTS}]{{1,2}})(?=[\s.,;:!?)]|\Z)")
_PLAIN_DIGITS = str.maketrans(_SUPERSCRIPTS, "0123456789")
# Sentences of the longest abstention.
_MOST_SENTENCES = 2
# Sentences of the longest cycle that is recognised.
_LONGEST_CYCLE = 4
_FENCED = re.compile(r"```(?:json|text|markdown|md)?[ \t]*\n(?P<inside>[^`]*)\n```", re.IGNORECASE)
_WRAPPED = re.compile(
    r"<(?P<tag>(?:final_)?(?:answer|response))>(?P<inside>.*?)(?:</(?P=tag)>)?",
    re.DOTALL | re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"\s*(?:(?:sure|certainly|of course|okay|ok|great question)\b[^\n.!:]{0,40}[.!:,]\s*)?"
    r"(?:(?:based on|according to|from|using|given)\s[^\n:.]{0,80}(?:here|answer)[^\n:.]{0,40}:"
    r"|here(?:'s|\u2019s| is| are)\s[^\n:.]{0,80}:|\*{0,2}(?:the\s)?(?:final\s)?answer"
    r"(?:\sto (?:this|the|your) question)?(?:\sis)?\*{0,2}:\*{0,2})\s*",
    re.IGNORECASE,
)
_SOURCES_HEAD = re.compile(
    r"[ \t]{0,9}(?:#{1,6}|\*\*)?[ \t]{0,9}(?:sources|references|citations|bibliography)\W{0,5}",
    re.IGNORECASE,
)
_SOURCE_LINE = re.compile(r"[ \t]{0,9}(?:[-*][ \t]{0,9})?(?:\[\^?\d{1,4}\]:?|\d{1,4}[.)])")
_NAMED = re.compile(
    r"[\[\u3010\uff3b]\s?(?:\^|(?:sources?|passages?|citations?|refs?|references?|documents?|docs?)"
    r"\s?[:#]?\s?)?(?P<rank>\d{1,4})(?:\u2020[^\]\u3011\uff3d\n]{0,40})?\s?[\]\u3011\uff3d]",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(r"\[(?:[Ss]ource:)?(?P<name>\s?[^\W\d_][^\[\]\n]{1,200})\](?!\()")
_ROUND = re.compile(r"(?<=\S)[ \t]?\((?P<rank>\d{1,2})\)(?=[.,;!?](?:\s|\Z)|\s*\Z)")
_RAISED = re.compile(r"<sup>\s?\[?(?P<rank>\d{1,2})\]?\s?</sup>", re.IGNORECASE)
# Text before a superscript that is a power: a digit, or a symbol as short as a unit's.
_A_POWER = re.compile(r"(?:\d|(?:^|[^A-Za-z])[A-Za-z\u00b5\u03bc]{1,2})\Z")

_ENDED = re.compile(r"[.!?\u3002\uff01\uff1f][\"')\]]*(?:\s?\[\d{1,4}\])*\s*\Z|\[\d{1,4}\]\.?\s*\Z")
_MARKER = re.compile(r"\[\d{1,4}\]")
_LINK = re.compile(
    r"!?\[(?P<words>[^\[\]\n]{0,1000}+)\]"
    r"\(\s{0,9}<?(?P<url>(?:[^()\s]|\([^()\s]{0,1000}+\))*+)[^()\n]{0,1000}+\)"
)
_ADDRESS = re.compile(
    r"(?:\b(?:https?|ftp)://|\bwww\.|\b(?:mailto|data|javascript):)[^\s<>\[\]()\"']{1,2000}"
    r"|\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"
)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,2000}+>|<!--[^<>]{0,2000}+>")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_REFERENCE = re.compile(r"^ {0,3}\[[^\[\]\n]{1,300}\]:[ \t]*<?(\S{1,2000})[^\n]*", re.MULTILINE)
_ENTITY = re.compile(r"[^/?#:]*&")
_SCHEME = re.compile(r"[\s\x00-\x1f]*[A-Za-z][A-Za-z0-9+.-]*:")
_MOST_PASSES = 8
# Joiners between letters of scripts that need them.
_JOINER = re.compile(r"((?<=[^\x00-\x7f\s])[\u200c\u200d](?=[^\x00-\x7f\s]))")


@cache
def _classes() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("abstentions.txt").read_text("utf-8")
    classes: dict[str, frozenset[str]] = {}
    for line in text.splitlines():
        name, *words = line.split()
        classes[name] = classes.get(name, frozenset()).union(words)
    return classes


def abstains(reply: str, question: str) -> bool:
    """Return whether a reply only says, in words of `abstentions.txt`, that there is no answer.

    It has at most two sentences, no marker, a negation, and besides listed words, function words
    and words of the question nothing. It says that the speaker cannot do something ("I cannot
    say") or that a source does not state it, in words that are not the question's.
    """
    if _MARKER.search(reply):
        return False
    words, classes = frozenset(WORD.findall(normalise(reply))), _classes()
    stems = frozenset(content_stems(question))
    others = frozenset(word for word in words if stem(word) not in stems)
    if others - STOP_WORDS - FOREIGN - frozenset().union(*classes.values()):
        return False
    negation, speaker, ability, source, statement = (
        bool((words if name == "negation" else others) & classes[name])
        for name in ("negation", "speaker", "ability", "source", "statement")
    )
    says_so = negation and ((speaker and ability) or (source and (ability or statement)))
    # Counted last: streams call this for each piece of a long text.
    return says_so and len(sentence_spans(reply)) <= _MOST_SENTENCES


def ends_thought(raw: str) -> bool:
    """Return whether a reply ends a thought that it did not begin."""
    end = _THOUGHT_END.match(raw)
    return end is not None and _THOUGHT.search(raw, 0, end.start("end")) is None


def without_thoughts(raw: str) -> str:
    """Return a reply without the thoughts that it contains as text."""
    return _THOUGHT.sub("", _THOUGHT_END.sub("", raw)).strip()


def cleaned(raw: str, question: str = "", blocks: Sequence[Block] = ()) -> str:
    """Return a reply without thoughts, tool calls, wrapping, preamble, repetition and sources list.

    Marker forms that become `[n]`: `[source 2]`, `[^1]`, LaTeX's cite, full-width brackets, `(1)`
    before the end of a clause without any `[n]`, superscripts unless they are powers, and the
    document name of exactly one block in brackets. A reply without an answer to `question` becomes
    the abstention.
    """
    text = _TOOL_CALL.sub("", without_thoughts(raw))
    text = _LOOP.sub(r"\g<words>", _TEXT_END.sub("", text).strip())
    text = without_echo(text).strip()
    for wrapper in (_WRAPPED, _FENCED):
        if wrapped := wrapper.fullmatch(text):
            text = wrapped["inside"].strip()
    text = _answer_of_json(text)
    text = outside_code(text, _said_once)
    while match := _PREAMBLE.match(text):
        text = text[match.end() :]
    text = _with_markers(_with_ranks(text, blocks) if text.strip(" .") else "")
    text = _without_list_of_sources(text).strip()
    return ABSTENTION if text and abstains(text, question) else text


def _said_once(text: str) -> str:
    """Drop repeated sentences; cut a text at the second round of a cycle."""
    pieces: list[str] = []
    sentences: list[str] = []
    at = 0
    for start, end in sentence_spans(text):
        if [text[start:end]] != sentences[-1:]:
            pieces.append(text[at:end])
            sentences.append(text[start:end])
        at = end
        for size in range(2, _LONGEST_CYCLE + 1):
            if len(sentences) >= 2 * size and sentences[-2 * size : -size] == sentences[-size:]:
                return "".join(pieces[:-size])
    return "".join([*pieces, text[at:]])


def _without_list_of_sources(text: str) -> str:
    lines = text.split("\n")
    at = len(lines)
    while at and (not lines[at - 1].strip() or _SOURCE_LINE.match(lines[at - 1])):
        at -= 1
    if at < 2 or at == len(lines) or not _SOURCES_HEAD.fullmatch(lines[at - 1]):
        return text
    body = "\n".join(lines[: at - 1])
    return body if _MARKER.search(body) else text


def cut(text: str, most_bytes: int) -> str:
    """Return the sentences that fit into `most_bytes` of UTF-8; truncate the first to fit."""
    if len(text.encode()) <= most_bytes:
        return text
    head = text.encode()[:most_bytes].decode("utf-8", "ignore")
    ends = [end for _, end in sentence_spans(head)[:-1]]
    return head[: ends[-1]].rstrip() if ends else head


def finished(text: str) -> str:
    """Remove an incomplete last sentence, unless it is the only one."""
    spans = sentence_spans(text)
    return text[: spans[-2].end] if len(spans) > 1 and not _ENDED.search(text) else text


def has_sentence(text: str) -> bool:
    """Return whether a truncated text contains a complete sentence."""
    return len(sentence_spans(text)) > 1 or _ENDED.search(text) is not None


def harmless(text: str, passages: Iterable[str]) -> tuple[str, bool]:
    """Remove unsafe content; return the text and whether anything was removed.

    Unsafe: invisible characters, and images, links, addresses and HTML (outside code) that no cited
    passage contains. Words of links stay.
    """
    stored = "\n".join(passages)
    plain = text
    for _ in range(_MOST_PASSES):  # removal can join the parts of another match
        before, plain = plain, _one_pass(plain, stored)
        if plain == before:
            return plain, plain != text
    return re.sub(r"[<>\[\]@:]", " ", plain), True


def inert(text: str) -> str:
    """Return a text with escaped tags and with links to web and mail addresses only.

    Code is unchanged. Other links become their text; `<` before a tag becomes `&lt;`.
    """

    def plain(part: str) -> str:
        part = _LINK.sub(lambda link: link[0] if _is_safe(link["url"]) else link["words"], part)
        part = _REFERENCE.sub(lambda match: match[0] if _is_safe(match[1]) else "", part)
        return _TAG_START.sub("&lt;", part)

    return outside_code(text, plain)


def _is_safe(target: str) -> bool:
    if _ENTITY.match(target):  # a reader of Markdown would decode it
        return False
    scheme = _SCHEME.match(target)
    return scheme is None or scheme[0].lower() in ("http:", "https:", "mailto:")


def _one_pass(text: str, passages: str) -> str:
    def stored(match: re.Match[str]) -> str:
        return match[0] if match[0] in passages else ""

    def words(match: re.Match[str]) -> str:
        return match[0] if match["url"] in passages else match["words"]

    pieces = enumerate(_JOINER.split(text))
    seen = "".join(piece if place % 2 else printable(piece) for place, piece in pieces)
    plain = _ADDRESS.sub(stored, _LINK.sub(words, seen))
    return outside_code(plain, partial(_TAG.sub, stored))


def _answer_of_json(text: str) -> str:
    if not text.startswith("{"):
        return text
    try:
        value: Any = json.loads(text, strict=False)
    except ValueError:
        return text
    if "name" in value and not value.keys().isdisjoint(("arguments", "parameters")):
        return ""  # a tool call
    answer = value.get("answer")
    return answer.strip() if isinstance(answer, str) and answer.strip() else text


def _with_ranks(text: str, blocks: Sequence[Block]) -> str:
    ranks: dict[str, set[int]] = {}
    for block in blocks:
        for name in {block.document_name, PurePath(block.document_name).name}:
            ranks.setdefault(name.casefold(), set()).add(block.rank)

    def marker(match: re.Match[str]) -> str:
        named = ranks.get(match["name"].strip().casefold(), ())
        return f"[{min(named)}]" if len(named) == 1 else match[0]

    return outside_code(text, partial(_DOCUMENT.sub, marker))


def _with_markers(text: str) -> str:
    for pattern in (_NAMED, _CITE, _DECORATED):
        text = outside_code(text, partial(pattern.sub, r"[\g<rank>]"))
    for pattern in (_RAISED, _SUPERSCRIPT):
        text = outside_code(text, partial(pattern.sub, _unless_power))
    if _MARKER.search(text) is not None:
        return text
    return outside_code(text, partial(_ROUND.sub, r" [\g<rank>]"))


def _unless_power(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 3) : match.start()]
    rank = match["rank"].translate(_PLAIN_DIGITS)
    return match[0] if _A_POWER.search(before.split(" ")[-1]) else f" [{rank}]"
