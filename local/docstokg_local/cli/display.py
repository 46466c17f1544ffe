"""Terminal output."""

import errno
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.text import Text

from docstokg.contracts import Json
from docstokg.domain.answer.grounding import place_in_words, proof
from docstokg.domain.answer.notices import SYNTHESIS_UNAVAILABLE
from docstokg.loading.context import LoadReport
from docstokg.loading.read.rejects import RejectLog, harmless
from docstokg_local.cli.printing import counted, echo, printable
from docstokg_local.cli.reasons import in_words

STEPS = (
    ("validation", "validate"),
    ("hybrid_retrieval", "retrieve"),
    ("kg_expansion", "expand"),
    ("dedup_mmr", "diversity"),
    ("citation_extraction", "ground"),
    ("llm_synthesis", "synthesize"),
    ("answer_check", "check"),
    ("between_steps", "between steps"),
    ("total", "total"),
)
# Labels of the retrievers, as on the page.
CHANNELS = {"bm25": "words", "splade": "related words", "dense": "meaning", "facts": "stated facts"}
# Options of `ask` by the request fields that they set.
OPTIONS = {
    "$.query": "the question",
    "$.namespace": "--namespace",
    "$.synthesis.model": "--synthesize",
    "$.top_k": "--top-k",
    "$.filter": "--filter",
}
FOUND_BY_WALK = "found by the walk"
SNIPPET_SHOWN = 320
PIPE_WIDTH = 140
INDENT = 5
NEAREST = 3
# Headings, emphasis, code marks and table borders of Markdown.
MARKUP = re.compile(
    r"^[ \t]*#{1,6}[ \t]+|\*\*|`|[ \t]*\|(?:[ \t:|-]*-{3,}[ \t:|-]*\|)?", re.MULTILINE
)
ROW = re.compile(
    r"(?P<cells>(?:[^:;\n]{1,80}: [^;\n]+; )+[^:;\n]{1,80}: [^;\n]+?)"
    r"(?P<markers>(?: ?\[\d{1,3}\])+)\.?"
)
NOTES = 20
# Seconds between two progress lines without a terminal.
LINE_EVERY_S = 10.0


class SafeConsole(Console):
    """A console that makes control characters visible."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`, which the command treats as success."""
        raise BrokenPipeError(errno.EPIPE, "the reader closed the pipe")

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render, then make every text printable."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def notes() -> Console:
    """Return standard error, for progress and remarks."""
    return screen(sys.stderr)


def screen(stream: Any = None) -> Console:
    """Return standard output, or another stream: styled on a terminal only."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    return SafeConsole(
        file=stream,
        highlight=False,
        no_color=None if terminal else True,
        width=None if terminal else PIPE_WIDTH,
        soft_wrap=not terminal,
        emoji=False,
    )


@contextmanager
def as_it_comes() -> Iterator[Callable[[str, Any], bool]]:
    """Show an answer on standard error while it is written, and remove it afterwards.

    Yield the listener: it takes an event's name and value, and returns True.
    """
    sentences: dict[int, str] = {}
    with Live("asking", console=notes(), transient=True, refresh_per_second=8) as live:

        def show_event(name: str, value: Any) -> bool:
            if name == "citations":
                live.update(Text(f"{counted(len(value['citations']), 'passage')} found"))
            elif name == "sentence":
                sentences[value.index] = value.text
                live.update(Text("".join(sentences.values())))
            return True

        yield show_event


# Minimum seconds of a load stage that is printed.
SHOWN_S = 0.5


class TerminalProgress:
    """Progress on standard error: bars on a terminal, else lines."""

    def __init__(self) -> None:
        self._console = notes()

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show one bar until the stage ends; without a total, a count.

        Yield a function that adds a number of finished steps.
        """
        if total == 0:
            yield lambda steps: None
            return
        if not self._console.is_terminal:
            with _lines(title, total) as advance:
                yield advance
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<18}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=self._console, transient=True) as bars:
            task = bars.add_task(title, total=total)
            yield lambda steps: bars.advance(task, steps)


@contextmanager
def _lines(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    begun, done, end = time.monotonic(), 0, threading.Event()

    def advance(steps: int) -> None:
        nonlocal done
        done += steps

    def refresh() -> None:
        with suppress(BrokenPipeError):  # the reader is closed; the load continues
            while not end.wait(LINE_EVERY_S):
                echo(_how_far(title, done, total, time.monotonic() - begun), err=True)

    thread = threading.Thread(target=refresh, daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        end.set()
        thread.join()


def _how_far(title: str, done: int, total: int | None, seconds: float) -> str:
    line = f"{title}: {done:,}" + ("" if total is None else f" of {total:,}")
    if total is None or not done:
        return line
    rate = done / seconds
    return f"{line}, {rate:,.1f}/s, {max(0, total - done) / rate:,.0f} s left"


def show_load(report: LoadReport, rejects: RejectLog) -> None:
    """Print what a load wrote and rejected."""
    out, err = screen(), notes()
    out.print(
        f"[bold]{counted(report.chunks, 'chunk')}[/] ({report.written:,} new or changed, "
        f"{report.unchanged:,} unchanged, {report.removed:,} removed), "
        f"[bold]{report.entities:,}[/] entities, [bold]{report.relations:,}[/] relations, "
        f"[bold]{report.mentions:,}[/] mentions"
    )
    for line in _load_details(report, bool(rejects.count)):
        out.print(escape(line), style="dim")
    # Notes on skipped files come last, so that they do not hide the others.
    listed = sorted(rejects.notes, key=lambda note: note.endswith(", not read"))
    for note in _first(map(harmless, listed), NOTES, len(listed), "note"):
        err.print(escape(note), style="dim")
    for warning in report.warnings:
        err.print(f"[yellow]warning:[/] {escape(warning)}")
    if rejects.count:
        err.print(f"[red]{rejects.count:,} rejected[/]")
        lines = map(str, rejects.first)
        for line in _first(lines, len(rejects.first), rejects.count, "reject"):
            err.print(f"  {escape(line)}", style="red")


def _first(lines: Iterable[str], limit: int, count: int, noun: str) -> Iterator[str]:
    yield from islice(lines, limit)
    if count > limit:
        yield f"... and {counted(count - limit, f'more {noun}')}"


def _load_details(report: LoadReport, has_rejects: bool) -> Iterator[str]:
    rate = report.chunks / report.seconds if report.seconds > 0 else 0.0
    pace = f" ({rate:,.0f} chunks/s)" if rate >= 1 else ""
    names = (report.embedding_model, report.sparse_model, report.names_by)
    models = ", ".join(model for model in names if model) or "none"
    yield (
        f"{counted(report.files, 'file')} in {report.seconds:.1f} s{pace}, "
        f"run {report.run_id}, models: {models}"
    )
    if (extraction := report.extraction) is not None:
        yield (
            f"{counted(extraction.triples, 'relation')} extracted from "
            f"{counted(extraction.chunks, 'chunk')} "
            f"by {extraction.model} ("
            f"{extraction.requests:,} requests, {extraction.failed:,} without a usable reply)"
        )
        refused = ", ".join(f"{count:,} {why}" for why, count in extraction.refused.most_common())
        yield (
            f"  refused: {refused or 'none'}; {extraction.tokens_in:,} + "
            f"{extraction.tokens_out:,} tokens, "
            f"{extraction.cost_usd:.4f} USD by list price"
        )
    shares = [f"{title} {took:.1f} s" for title, took in report.stages.items() if took >= SHOWN_S]
    if shares:
        yield f"stages: {', '.join(shares)}"
    if report.gone:
        yield f"{counted(report.gone, 'document')} removed (file deleted)"
    if report.relinked:
        yield f"new entities in {counted(report.relinked, 'earlier chunk')}"
    if len(report.types) > 1 or has_rejects:
        for type_, count in sorted(report.types.items()):
            files, chunks = counted(count.files, "file"), counted(count.chunks, "chunk")
            line = f"  {type_:<16} {files:>12} {chunks:>15}"
            line += f" {count.rejected:>6,} with rejects" if count.rejected else ""
            yield line + (f" {count.skipped:>6,} skipped" if count.skipped else "")


def show_answer(response: Json, limit: int) -> None:
    """Print a response: citations with places and graph paths, then the answer.

    `limit`: maximum number of citations; cited ones have priority.
    """
    out = screen()
    out.print(f"question: {escape(response['query'])}", style="bold")
    out.print()
    citations: Sequence[Json] = response["citations"]
    chosen = _chosen(citations, limit)
    newer = {
        older: newer for newer, older in (conflict["ranks"] for conflict in response["conflicts"])
    }
    for citation in chosen:
        _show_citation(out, citation, newer.get(citation["rank"]))
    if len(chosen) < len(citations):
        hidden = counted(len(citations) - len(chosen), "more citation")
        out.print(f"... and {hidden} (--citations N shows more, --json all)", style="dim")
    if not citations:
        out.print("no citations")
    if response["answer"]:
        _show_written(out, response)
    for note in response["notes"]:
        out.print(escape(note))
    for warning in without_general(response["warnings"]):
        out.print(f"[yellow]warning:[/] {escape(warning)}")
    if diagnostics := response["diagnostics"]:
        if citations:
            _show_diagnostics(out, diagnostics, citations)
        if diagnostics["degraded"]:
            reasons = in_words(diagnostics["degraded_reasons"])
            out.print(f"[yellow]degraded:[/] {escape(reasons)}")


def without_general(warnings: Sequence[str]) -> list[str]:
    """Return the warnings without the general one on a failed model, unless it is the last."""
    return [
        warning
        for place, warning in enumerate(warnings, 1)
        if warning != SYNTHESIS_UNAVAILABLE or place == len(warnings)
    ]


def _chosen(citations: Sequence[Json], limit: int) -> list[Json]:
    first = sorted(citations, key=lambda citation: (not citation["cited"], citation["rank"]))
    return sorted(first[:limit], key=lambda citation: citation["rank"])


def _show_written(out: Console, response: Json) -> None:
    out.print()
    # The answer is Markdown, in which `<` before a tag is written as an entity.
    for line in _with_rows(response["answer"].replace("&lt;", "<")):
        answer = Text(line)
        answer.highlight_regex(r"\[\d+\]", "bold cyan")
        out.print(answer)
    if grounding := response["grounding"]:
        line = f"confidence {response['confidence']:.2f} ({response['confidence_level']})"
        line += f", coverage {grounding['coverage']:.2f}, {proof(grounding)}"
        out.print(line, style="dim")
    elif citations := response["citations"]:
        nearest = "; ".join(
            f"[{citation['rank']}] {_about(citation)}" for citation in citations[:NEAREST]
        )
        out.print(f"nearest passages: {nearest}", style="dim", markup=False)


def _with_rows(answer: str) -> list[str]:
    """Return the lines of an answer; of quoted rows, "Key: a; Column: b [1].", one per cell."""
    lines: list[str] = []
    for sentence in re.split(r"(?<=\]\.)\s", answer.strip()):
        row = ROW.fullmatch(sentence)
        if row is None:
            return [answer]
        cells = [cell.split(": ", 1) for cell in row["cells"].split("; ")]
        width = max(len(name) for name, _ in cells)
        lines += ["", *(f"{name:<{width}}  {value}" for name, value in cells)]
        lines[-1] += f" {row['markers'].strip()}"
    return lines[1:]


def _about(citation: Json) -> str:
    concepts = ", ".join(citation["concepts_mentioned"][:3])
    return _place(citation) + (f" (about {concepts})" if concepts else "")


def _place(citation: Json) -> str:
    document = citation["document_name"] or citation["doc_id"]
    return place_in_words(document, citation["section"], citation["page"])


def _show_citation(out: Console, citation: Json, newer: int | None = None) -> None:
    place = _place(citation)
    replaced = f"  [yellow]replaced by \\[{newer}][/]" if newer is not None else ""
    cited = "[green]*[/]" if citation["cited"] else " "
    source = "graph" if citation["source"] == "kg_expansion" else "search"
    out.print(
        f"{cited}[bold cyan]\\[{citation['rank']}][/] [bold]{escape(place)}[/]  "
        f"score {citation['score']:.2f}  {source}{replaced}"
    )
    span = f"{citation['char_start']}..{citation['char_end']} of the {citation['offset_base']}"
    place = f"{citation['chunk_id']}, characters {span}, sha256 {citation['text_sha256'][:12]}"
    _indented(out, Text(place, style="dim"))
    _indented(out, Text(snippet_line(citation)))
    if path := path_line(citation):
        _indented(out, Text.assemble(("graph: ", "magenta"), path))


def _indented(out: Console, text: Text) -> None:
    if out.is_terminal:
        out.print(Padding(text, (0, 0, 0, INDENT)))
    else:
        out.print(" " * INDENT, text, sep="")


def snippet_line(citation: Json) -> str:
    """Return a citation's snippet on one line, without markup, cut at SNIPPET_SHOWN characters."""
    snippet = " ".join(MARKUP.sub(" ", citation["snippet"]).split())
    return snippet if len(snippet) <= SNIPPET_SHOWN else snippet[: SNIPPET_SHOWN - 3] + "..."


def path_line(citation: Json) -> str:
    """Return how the graph led to a citation: path (`A -type-> B`), mention or walk; "" if not."""
    if not (evidence := citation["kg_evidence"]):
        return FOUND_BY_WALK if citation["kg_path"] else ""
    name, identifier = evidence["matched_entity"], evidence["entity_id"]
    # An id derived from the name adds no information.
    name = name if _is_made_up(identifier) else f"{name} ({identifier})"
    if evidence["path"]:
        ends = {citation["kg_path"][0]: evidence["related_to"]}
        ends[evidence["entity_id"]] = evidence["matched_entity"]
        steps = [
            f"{_label(edge['src'], ends)} -{edge['type']}-> {_label(edge['dst'], ends)}"
            for edge in evidence["path"]
        ]
        return f"{name}: {'; '.join(steps)}"
    return f"{name} named here"


def _label(identifier: str, names: dict[str, str | None]) -> str:
    return (_is_made_up(identifier) and names.get(identifier)) or identifier


def _is_made_up(identifier: str) -> bool:
    return identifier.startswith("ent:")


def _show_diagnostics(out: Console, diagnostics: Json, citations: Sequence[Json]) -> None:
    timings = diagnostics["timings_ms"]
    out.print()
    steps = ", ".join(f"{name} {timings[key]:.1f}" for key, name in STEPS)
    out.print(f"times in ms: {steps}")
    counts = [
        f"{CHANNELS.get(name, name)} ({use['selected']})"
        for name, use in diagnostics["channels"].items()
        if use["selected"]
    ]
    graph = sum(citation["source"] == "kg_expansion" for citation in citations)
    counts += [f"the graph ({graph})"] if graph else []
    out.print(f"{counted(len(citations), 'citation')}, found by {', '.join(counts)}", style="dim")


def show_problem(problem: Json) -> None:
    """Print a problem+json body on standard error; invalid input is named by its option."""
    err = notes()
    if problem["status"] == 400 and problem["errors"]:
        for error in problem["errors"]:
            path = error["path"]
            head = next((p for p in OPTIONS if path == p or path.startswith(f"{p}.")), None)
            name = OPTIONS[head] + path[len(head) :] if head else path
            err.print(f"docstokg: {name}: {error['message']}", markup=False)
        return
    err.print(
        f"[red]{problem['status']} {escape(problem['title'])}[/] "
        f"({escape(problem['code'])}): {escape(problem['detail'])}"
    )
    for error in problem["errors"]:
        err.print(f"  {escape(error['path'])}: {escape(error['message'])}")
