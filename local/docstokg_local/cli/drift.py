"""`docstokg drift`: responses with changed evidence."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from docstokg.contracts import Json
from docstokg.errors import LoadError
from docstokg_local.cli.exit_codes import DONE, NOT_GOOD, WRONG_USAGE
from docstokg_local.cli.options import (
    Graph,
    Index,
    NamespaceOrNone,
    argument,
    flag,
    json_file,
    wiring_of,
)
from docstokg_local.cli.printing import counted, say

if TYPE_CHECKING:
    from docstokg.contracts.response import Citation, RAGResponse
    from docstokg.ports import IndexWriter

KEPT = "unchanged"


def drift(
    folder: Annotated[Path, argument("FOLDER", "Folder of saved RAGResponses (*.json).")],
    namespace: NamespaceOrNone = None,
    json_output: bool = flag("--json", "Print JSON."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Report saved responses whose evidence was deleted, changed or superseded.

    Evidence is the text that the answer relies on: quoted spans, else the snippets of cited
    passages, else of all passages. A moved or renamed text is `unchanged`. --namespace compares
    with another namespace. Exit code 0: no drift; 1: drift; 2: no response, or another JSON file.
    """
    from docstokg_local.cli.display import print_json
    from docstokg_local.cli.verify import read_response

    responses, unread = {}, {}
    for file in sorted(folder.rglob("*.json")):
        try:
            responses[str(file.relative_to(folder))] = read_response(json_file(file))
        except LoadError as wrong:
            unread[str(file.relative_to(folder))] = str(wrong).removeprefix(f"{file} ")
    if not responses and not unread:
        raise LoadError(f"{folder} contains no saved responses (*.json)")
    writer = wiring_of(index, graph, aloud=not json_output).index_writer()
    found = drifts(responses, writer, namespace)
    report = [_row(file, responses[file], evidence) for file, evidence in found.items()]
    if json_output:
        print_json({"responses": report, "unreadable": unread})
    else:
        _show(report)
    for name, why in unread.items():
        say(f"docstokg: {name} is not a saved response: {why}", err=True)
    drifted = any(row["drifted"] for row in report)
    raise typer.Exit(WRONG_USAGE if unread else NOT_GOOD if drifted else DONE)


class Evidence(NamedTuple):
    """A cited passage, what became of it, and the document that contains or supersedes it now."""

    rank: int
    doc_id: str
    kind: str
    now: str


def drifts(
    responses: dict[str, "RAGResponse"], writer: "IndexWriter", namespace: str | None
) -> dict[str, list[Evidence]]:
    """Return the evidence of each response, compared with its namespace or another one."""

    def home(response: "RAGResponse", citation: "Citation") -> str:
        return namespace or citation.namespace or response.metadata.namespace

    cited = {name: _evidence(response) for name, response in responses.items()}
    wanted: dict[str, list[Citation]] = {}
    for name, rows in cited.items():
        for citation in rows:
            wanted.setdefault(home(responses[name], citation), []).append(citation)
    stored = {name: _Stored(writer, name, citations) for name, citations in wanted.items()}
    return {
        name: [
            Evidence(
                citation.rank,
                citation.doc_id,
                *stored[home(response, citation)].state(
                    citation, _quotes(response, citation), _was_superseded(response, citation)
                ),
            )
            for citation in cited[name]
        ]
        for name, response in responses.items()
    }


def _evidence(response: "RAGResponse") -> list["Citation"]:
    return [one for one in response.citations if one.cited] or list(response.citations)


def _was_superseded(response: "RAGResponse", citation: "Citation") -> bool:
    return any(one.ranks[1] == citation.rank for one in response.conflicts)


def _quotes(response: "RAGResponse", citation: "Citation") -> list[str]:
    start, found = citation.char_start, []
    for sentence in response.grounding.sentences if response.grounding else ():
        span = sentence.span
        if span is None or span.uuid != citation.uuid:
            continue
        if start <= span.char_start and span.char_end <= citation.char_end:
            found.append(citation.snippet[span.char_start - start : span.char_end - start])
        elif sentence.quote:
            found.append(sentence.quote)
    return [one for one in map(_words, found) if one] or [_words(citation.snippet)]


def _words(text: str) -> str:
    return " ".join(text.split())


class _Stored:
    def __init__(
        self, writer: "IndexWriter", namespace: str, citations: Sequence["Citation"]
    ) -> None:
        from docstokg.domain import supersedes

        doc_ids = {citation.doc_id for citation in citations}
        hashes = {citation.text_sha256 for citation in citations}
        documents: dict[str, supersedes.Document[str]] = {}
        texts: dict[str, list[tuple[int, str]]] = {}
        self._moved: dict[str, str] = {}
        for chunk, _ in writer.stored_chunks(namespace):
            if chunk.doc_id not in documents:
                names = chunk.doc_id, chunk.doc_id, chunk.document_name or "", chunk.title
                links = supersedes.declared(chunk.metadata)
                documents[chunk.doc_id] = supersedes.Document(*names, links)
            if chunk.doc_id in doc_ids:
                texts.setdefault(chunk.doc_id, []).append((chunk.char_start or 0, chunk.text))
            if chunk.text_sha256 in hashes:
                self._moved[chunk.text_sha256] = chunk.doc_id
        if not documents:
            say(f"docstokg: namespace {namespace} is empty", err=True)
        self._newer = supersedes.links(documents.values()).newer
        self._texts = {
            doc_id: _words(" ".join(text for _, text in sorted(parts)))
            for doc_id, parts in texts.items()
        }

    def state(
        self, citation: "Citation", quotes: Sequence[str], was_superseded: bool
    ) -> tuple[str, str]:
        doc_id = citation.doc_id
        text = self._texts.get(doc_id)
        if text is None or not all(quote in text for quote in quotes):
            if citation.text_sha256 not in self._moved:
                return ("deleted", "") if text is None else ("changed", doc_id)
            doc_id = self._moved[citation.text_sha256]
        newer = self._newer.get(doc_id)
        if newer and not was_superseded:
            return "superseded", min(newer)
        return KEPT, doc_id


def _row(file: str, response: "RAGResponse", evidence: Iterable[Evidence]) -> Json:
    rows = [one._asdict() for one in evidence]
    drifted = any(row["kind"] != KEPT for row in rows)
    return {"file": file, "query": response.query, "drifted": drifted, "evidence": rows}


def _show(report: Sequence[Json]) -> None:
    drifted = [row for row in report if row["drifted"]]
    for row in drifted:
        say(f"{row['file']}: {row['query']}")
        for one in row["evidence"]:
            if one["kind"] != KEPT:
                by = f" by {one['now']}" if one["kind"] == "superseded" else ""
                say(f"  [{one['rank']}] {one['doc_id']}: {one['kind']}{by}")
    say(f"{counted(len(drifted), 'response')} of {len(report)} drifted")
