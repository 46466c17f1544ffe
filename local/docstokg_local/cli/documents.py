"""Lists of loaded documents, and the removal prompt."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from docstokg.contracts.records import DocumentRecord, IndexInfo
from docstokg.loading.read.source_registry import every_document
from docstokg.ports import DocumentRegister, GraphWriter
from docstokg_local.cli.printing import agreed, counted, say

SHOWN = 20
"""Maximum documents listed before a prompt; without a terminal all are listed."""

MOST_MENTIONED = 30
"""Maximum entities listed per namespace."""

FIELDS = ("doc_id", "title", "chunks", "run_id", "loaded_at", "note")


def list_loaded(
    register: DocumentRegister,
    namespace: str | None,
    documents: bool,
    as_json: bool,
    entities: GraphWriter | None = None,
    index: IndexInfo | None = None,
) -> bool:
    """Print namespaces and, with `documents`, their documents; return False if nothing is loaded.

    `entities`: graph whose most mentioned entities are listed too.
    """
    names = register.namespaces() if namespace is None else (namespace,)
    every = {name: list(every_document(register, name)) for name in names}
    summaries = [
        _summary(name, records, index or IndexInfo()) for name, records in every.items() if records
    ]
    for summary in summaries:
        name = summary["namespace"]
        if documents:
            summary["documents"] = [one.model_dump(include=set(FIELDS)) for one in every[name]]
        if entities is not None:
            summary["entities"] = [
                {"id": item.id, "name": item.name, "type": item.type, "mentions": item.mentions}
                for item in entities.most_mentioned(name, MOST_MENTIONED)
            ]
    if as_json:
        from docstokg_local.cli.display import print_json

        print_json({"namespaces": summaries})
    elif not summaries:
        say("nothing is loaded" + (f" in {namespace}" if namespace else ""), err=True)
    else:
        _show(summaries, documents)
    return bool(summaries)


def _summary(name: str, records: Sequence[DocumentRecord], index: IndexInfo) -> dict[str, Any]:
    last = max(records, key=lambda record: record.loaded_at)
    return {
        "namespace": name,
        "count": len(records),
        "chunks": sum(record.chunks for record in records),
        "encoder": index.model_of(name),
        "languages": [code for code in index.languages.get(name, {}) if code != "en"],
        "last_load": {"run_id": last.run_id, "at": last.loaded_at},
    }


def _show(summaries: Iterable[dict[str, Any]], documents: bool) -> None:
    for summary in summaries:
        line = f"{summary['namespace']}: {counted(summary['count'], 'document')}, "
        line += f"{counted(summary['chunks'], 'chunk')}, last load {summary['last_load']['at']}, "
        line += f"encoder {summary['encoder'] or 'none'}"
        others = " ".join(summary["languages"])
        say(line + (f", other languages {others}" if others else ""))
        for row in summary.get("entities", ()):
            say(f"  {row['mentions']:>6,}  {row['name']}  ({row['type'] or row['id']})")
        for row in summary["documents"] if documents else ():
            line = f"  {row['doc_id']}  {counted(row['chunks'], 'chunk')}  {row['loaded_at']}"
            say(line + (f"  {row['title']}" if row["title"] else ""))
            if row["note"]:
                say(f"    note: {row['note']}")


def agree_to_remove(gone: Sequence[str]) -> bool:
    """Ask whether to remove documents whose files were deleted; return False without a terminal."""
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    for doc_id in gone[:SHOWN] if terminal else gone:
        say(f"deleted: {doc_id}", err=True)
    if not terminal:
        still = f"deleted from the folder but still loaded: {counted(len(gone), 'document')}"
        say(f"{still}; use --yes to remove them", err=True)
        return False
    if len(gone) > SHOWN:
        say(f"... and {len(gone) - SHOWN:,} more", err=True)
    return agreed(f"Remove {counted(len(gone), 'document')}?")
