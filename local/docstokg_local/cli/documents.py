"""Document lists and removal prompt."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from docstokg.contracts import Json
from docstokg.contracts.documents import ListedNamespace
from docstokg.contracts.records import IndexInfo, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack
from docstokg.ports import SearchIndex, every_document
from docstokg_functions.documents.listing import states
from docstokg_local.cli.printing import agreed, counted, echo, print_json
from docstokg_local.server.authentication import EVERYBODY

if TYPE_CHECKING:
    from docstokg.wiring import Wiring

# Maximum documents listed before a prompt; without a terminal all are listed.
SHOWN = 20

# Maximum time to look for a vector of a namespace.
LOOK_S = 10.0

# Maximum entities listed per namespace.
MOST_MENTIONED = 30

FIELDS = ("doc_id", "title", "chunks", "run_id", "loaded_at", "note")


def list_loaded(
    wiring: "Wiring", namespace: str | None, documents: bool, entities: bool, as_json: bool
) -> bool:
    """Print namespaces and, if requested, documents and most mentioned entities; False for none."""
    from docstokg.loading.pipeline import info_before

    register, index = wiring.register(), wiring.search_index()
    info = info_before(index)
    summaries = [
        _summary(state, info, index)
        for state in states(EVERYBODY, register, info, wiring.job_queue(), wiring.telemetry)
        if namespace in (None, state.namespace)
    ]
    for summary in summaries:
        name = summary["namespace"]
        if documents:
            every = every_document(register, name)
            summary["documents"] = [document.model_dump(include=set(FIELDS)) for document in every]
        if entities:
            summary["entities"] = [
                {"id": item.id, "name": item.name, "type": item.type, "mentions": item.mentions}
                for item in wiring.graph_writer().most_mentioned(name, MOST_MENTIONED)
            ]
    if as_json:
        print_json({"namespaces": summaries})
    elif not summaries:
        echo("nothing is loaded" + (f" in {namespace}" if namespace else ""), err=True)
    else:
        _print_tables(summaries, documents)
    return bool(summaries)


def _summary(state: ListedNamespace, info: IndexInfo, index: SearchIndex) -> Json:
    name = state.namespace
    return {
        **state.model_dump(exclude={"documents", "may_load"}),
        "count": state.documents,
        "encoder": stored_encoder(name, info, index),
        "languages": [code for code in info.languages.get(name, {}) if code != "en"],
    }


def stored_encoder(name: str, info: IndexInfo, index: SearchIndex) -> str | None:
    """Return the embedding model of a namespace; None if no passage has a vector."""
    model, dimension = info.space_of(name)
    nearest = ChannelQuery(channel="dense", size=1, vector=pack([1.0] * (dimension or 1)))
    (result,) = index.search([nearest], Scope(namespace=name), Deadline.after(LOOK_S))
    return model if result.hits else None


def _print_tables(summaries: Iterable[Json], documents: bool) -> None:
    for summary in summaries:
        last = summary["last_load"] or {"at": "none"}
        line = f"{summary['namespace']}: {counted(summary['count'], 'document')}, "
        line += f"{counted(summary['chunks'], 'chunk')}, last load {last['at']}, "
        line += f"encoder {summary['encoder'] or 'none'}"
        others = " ".join(summary["languages"])
        line += f", other languages {others}" if others else ""
        line += f", {counted(summary['jobs'], 'job')} waiting" if summary["jobs"] else ""
        echo(line + (", a load is unfinished" if summary["unfinished"] else ""))
        for row in summary.get("entities", ()):
            echo(f"  {row['mentions']:>6,}  {row['name']}  ({row['type'] or row['id']})")
        for row in summary["documents"] if documents else ():
            line = f"  {row['doc_id']}  {counted(row['chunks'], 'chunk')}  {row['loaded_at']}"
            echo(line + (f"  {row['title']}" if row["title"] else ""))
            if row["note"]:
                echo(f"    note: {row['note']}")


def agree_to_remove(doc_ids: Sequence[str]) -> bool:
    """Ask whether to remove documents whose files were deleted; return False without a terminal."""
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    for doc_id in doc_ids[:SHOWN] if terminal else doc_ids:
        echo(f"deleted: {doc_id}", err=True)
    if not terminal:
        still = f"deleted from the folder but still loaded: {counted(len(doc_ids), 'document')}"
        echo(f"{still}; use --yes to remove them", err=True)
        return False
    if len(doc_ids) > SHOWN:
        echo(f"... and {len(doc_ids) - SHOWN:,} more", err=True)
    return agreed(f"Remove {counted(len(doc_ids), 'document')}?")
