"""`*.txt`: structure from indentation."""

import re
from dataclasses import dataclass, field

from docstokg.contracts.outline import Block, Outline

_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_MAN_TITLE = re.compile(
    r"\s*([A-Za-z0-9_.+:-]{1,100})\((\d\w*)\)\s.*\b\1\(\2\)\s*\Z", re.IGNORECASE
)
_RULE = re.compile(r"[ \t]*([=~^*-])\1{2,}[ \t]*\r?\n?\Z")
LONGEST_HEADING = 80
LONGEST_TERM = 80
DEEPEST = 12


@dataclass(slots=True)
class _Group:
    start: int
    end: int
    indent: int
    first: str
    lines: int = 1
    below: list["_Group"] = field(default_factory=list)


def outline_text(text: str) -> Outline:
    """Return the text with its headings, paragraphs, and terms with indented descriptions.

    A heading is a line above a rule (`===`: level 1, others: 2), or one of at least two lines
    without lower-case letters above more indented lines. Only a manual page has a title.
    """
    roots = _nested(_groups(text, 0, len(text)))
    shouts = [root for root in roots if _is_shout(root)]
    headings = {id(root) for root in shouts} if len(shouts) >= 2 else set()
    blocks: list[Block] = []
    for root in roots:
        if id(root) in headings:
            blocks.append(Block("heading", root.start, root.end, 1, root.first))
            for group in root.below:
                # ` Merge options` is indented less than the text.
                if group.indent <= root.indent + 3 and _is_short(group) and group.below:
                    blocks.append(Block("heading", group.start, group.end, 2, group.first))
                    blocks.extend(map(_block, group.below))
                else:
                    blocks.append(_block(group))
        elif root.lines == 2 and (level := _underlined(text[root.start : root.end])):
            blocks.append(Block("heading", root.start, root.end, level, root.first))
            blocks.extend(map(_block, root.below))
        else:
            blocks.append(_block(root))
    first = next((line for line in text[:500].split("\n") if line.strip()), "")
    manual = _MAN_TITLE.match(first) if len(first) < 200 else None
    title = f"{manual[1].lower()}({manual[2]})" if manual and headings else ""
    return Outline(text=text, blocks=tuple(blocks), title=title)


def paragraph_blocks(text: str, begin: int, end: int) -> tuple[Block, ...]:
    """Find paragraphs, and terms with their descriptions, in `text[begin:end]`."""
    return tuple(map(_block, _nested(_groups(text, begin, end))))


def _nested(groups: list[_Group]) -> list[_Group]:
    roots: list[_Group] = []
    stack: list[_Group] = []
    for group in groups:
        while stack and (stack[-1].indent >= group.indent or len(stack) >= DEEPEST):
            stack.pop()
        (stack[-1].below if stack else roots).append(group)
        stack.append(group)
    return roots


def _groups(text: str, begin: int, end: int) -> list[_Group]:
    groups: list[_Group] = []
    blank = True
    for match in _LINE.finditer(text, begin, end):
        line = match[0]
        words = line.strip()
        if not words:
            blank = True
            continue
        expanded = line.expandtabs()
        indent = len(expanded) - len(expanded.lstrip())
        last = groups[-1] if groups else None
        if last is None or blank or indent > last.indent + 1 or indent < last.indent:
            groups.append(_Group(match.start(), match.end(), indent, words))
        else:
            last.end = match.end()
            last.lines += 1
        blank = False
    return groups


def _block(group: _Group) -> Block:
    if not group.below:
        return Block("text", group.start, group.end)
    below = tuple(map(_block, group.below))
    label = group.first if len(group.first) <= LONGEST_TERM else ""
    first_block = Block("text", group.start, group.end)
    return Block("item", group.start, below[-1].end, label=label, children=(first_block, *below))


def _is_shout(group: _Group) -> bool:
    return (
        group.indent == 0
        and _is_short(group)
        and bool(group.below)
        and group.first == group.first.upper()
        and any(map(str.isalpha, group.first))
    )


def _is_short(group: _Group) -> bool:
    return group.lines == 1 and len(group.first) <= LONGEST_HEADING and group.first[0].isalnum()


def _underlined(lines: str) -> int:
    first, _, second = lines.partition("\n")
    rule = _RULE.match(second)
    if rule is None or len(first) > LONGEST_HEADING:
        return 0
    return 1 if rule[1] == "=" else 2
