"""Sources of documents."""

import datetime
import hashlib
import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from docstokg.contracts.records import DocumentRecord
from docstokg.domain.visibility import may_see
from docstokg.loading.read.raw_input import RawDocument
from docstokg.loading.read.rejects import Postponed
from docstokg.loading.read.sources import Posted, SourceFile
from docstokg.loading.read.staging import Staging
from docstokg.ports import DocumentRegister, every_document

# Namespace and doc_id of the HMAC key for folder hashes, in stores of earlier versions.
KEY = ("", "root-key")

BATCH = 200
BATCH_CHARACTERS = 50_000_000

# Pseudo folder of posted documents.
POSTED = Path("posted")


def key_of(namespace: str) -> tuple[str, str]:
    """Return namespace and doc_id of the HMAC key of a namespace's folders."""
    return KEY[0], f"{KEY[1]}/{namespace}"


class SourceRegistry:
    """The documents of a namespace before a load, and the load's records."""

    def __init__(
        self, register: DocumentRegister, namespace: str, replace: bool, run_id: str = ""
    ) -> None:
        self._run_id = run_id
        self._register = register
        self._namespace = namespace
        self._replace = replace
        self._own_key = key_of(namespace)
        known = register.text(*self._own_key) or register.text(*KEY)
        self._key = known or secrets.token_hex(32)
        self.stored = {record.doc_id: record for record in every_document(register, namespace)}
        self._roots: dict[Path, str] = {}
        self._same, self._others = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._moved: dict[str, str] = {}
        # Files postponed until moved folders are known; None: do not postpone.
        self.postponed: list[SourceFile] | None = None

    def root(self, folder: Path) -> str:
        """Return the HMAC of a folder's resolved path; POSTED has its own."""
        if folder not in self._roots:
            place = b"posted" if folder == POSTED else os.fsencode(folder.resolve())
            self._roots[folder] = hmac.new(self._key.encode(), place, hashlib.sha256).hexdigest()
        return self._roots[folder]

    def conflict(self, file: SourceFile, document: RawDocument) -> str | None:
        """Return why a document may not take its id, or None; raise `Postponed` before `settle`.

        Another folder's file has it with other text, unless the document's file sets its id; a
        posted one exists without `replace`, or is invisible.
        """
        stored = self.stored.get(document.doc_id)
        if file.posted is not None:
            return self._taken(file.posted, stored)
        if stored is None or document.named or self._replace or stored.sha256 == document.digest:
            return None
        root = self.root(file.root)
        if stored.root in ("", root, self._moved.get(root)):
            return None
        if self.postponed is not None:
            self._others[root, stored.root] += 1
            self.postponed.append(file)
            raise Postponed
        return (
            f"doc_id {document.doc_id!r} was loaded from another folder with different text;"
            " use --prefix NAME/ to keep both or --replace-docs to replace it"
        )

    def _taken(self, posted: Posted, stored: DocumentRecord | None) -> str | None:
        if stored is None or stored.run_id == self._run_id:
            return None
        if not self._replace:
            return "a document with this id is already loaded; set `replace` to overwrite it"
        seen = may_see(stored.acl, posted.groups)
        return None if seen else "no document with this id is visible to the sender"

    def note(self, file: SourceFile, document: RawDocument, staging: Staging) -> None:
        """Stage the register record of a document."""
        root, stored = self.root(file.root), self.stored.get(document.doc_id)
        if stored is not None and not document.named and stored.sha256 == document.digest:
            self._same[root, stored.root] += 1
        record = DocumentRecord(
            namespace=self._namespace,
            doc_id=document.doc_id,
            title=document.title,
            sha256=document.digest,
            converter=document.converter,
            root=root,
            path=file.inner,
            named=document.named,
            note=document.note,
            text=document.text,
            original=document.original,
        )
        staging.add_origin(document.doc_id, record.model_dump_json())

    def settle(self) -> list[str]:
        """Detect moved folders after all files were read; return notes about them.

        Over half of a moved folder's stored documents are unchanged.
        """
        self.postponed, said = None, []
        sizes = Counter(record.root for record in self.stored.values())
        folders = {root: folder for folder, root in self._roots.items()}
        for (root, old), same in self._same.items():
            if old in ("", *folders) or same * 2 <= sizes[old] or same <= self._others[root, old]:
                continue
            self._moved[root] = old
            said.append(
                f"{folders[root]}: replaces a folder loaded from another path; {same} of"
                f" its {sizes[old]} documents are unchanged"
            )
        return said

    def write_key(self) -> None:
        """Store the key of the folder hashes for other processes."""
        space, doc_id = self._own_key
        self._register.put([DocumentRecord(namespace=space, doc_id=doc_id, text=self._key)])

    def write(self, staging: Staging, run_id: str, after: str = "") -> Iterator[str]:
        """Write the register; unchanged documents keep run and time.

        Yields the last doc_id of each batch; `after`: resume after it.
        """
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.write_key()
        rows = ((doc_id, line) for doc_id, line in staging.origins() if doc_id > after)
        for some in _batches(rows):
            records = [self._record(staging, *row, run_id, now) for row in some]
            if changed := [record for record in records if self._is_changed(record)]:
                self._register.put(changed)
            yield some[-1][0]

    def _record(
        self, staging: Staging, doc_id: str, line: str, run_id: str, now: str
    ) -> DocumentRecord:
        chunks, title, acl = staging.document_facts(doc_id)
        record = DocumentRecord.model_validate_json(line)
        known = {"chunks": chunks, "title": record.title or title, "acl": acl}
        return record.model_copy(update={**known, "run_id": run_id, "loaded_at": now})

    def _is_changed(self, record: DocumentRecord) -> bool:
        stored, times = self.stored.get(record.doc_id), {"run_id", "loaded_at", "text", "original"}
        return not stored or stored.model_dump(exclude=times) != record.model_dump(exclude=times)

    def of_roots(self, roots: Iterable[Path]) -> int:
        """Return the number of stored documents read from these folders."""
        mine = self._hashes(roots)
        return sum(record.root in mine for record in self.stored.values())

    def _hashes(self, folders: Iterable[Path]) -> set[str]:
        roots = {self.root(folder) for folder in folders}
        return roots | {self._moved[root] for root in roots if root in self._moved}

    def gone(
        self, roots: Iterable[Path], prefix: str, staging: Staging, rejected: set[tuple[str, str]]
    ) -> list[str]:
        """Return the stored documents of these folders that this load did not see, sorted.

        `rejected`: (root, path) of unreadable files: their documents are kept, as are those with
        another `prefix`, unless their files set the id.
        """
        mine = self._hashes(roots)
        seen = {doc_id for doc_id, _ in staging.origins()}
        return sorted(
            doc_id
            for doc_id, record in self.stored.items()
            if record.root in mine
            and doc_id not in seen
            and (record.named or doc_id.startswith(prefix))
            and (record.root, record.path) not in rejected
        )


def _batches(rows: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    some: list[tuple[str, str]] = []
    for row in rows:
        some.append(row)
        if len(some) == BATCH or sum(len(line) for _, line in some) > BATCH_CHARACTERS:
            yield some
            some = []
    if some:
        yield some


def many(gone: Sequence[str], stored: int) -> bool:
    """Return whether `gone` are over 20 % of `stored` documents."""
    return len(gone) * 5 > stored


def document_rows(register: DocumentRegister, namespace: str) -> Iterable[str]:
    """Yield one canonical line per document, sorted, without run ids, times and origins."""
    for record in every_document(register, namespace):
        fields = ("doc_id", "title", "acl", "chunks", "sha256", "converter")
        line = record.model_dump(mode="json", include=set(fields))
        yield f"document {json.dumps(line, sort_keys=True, ensure_ascii=False)}"
