"""Sources of documents."""

import datetime
import hashlib
import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from docstokg.contracts.records import DocumentRecord
from docstokg.domain.identity import KEYS, key_of
from docstokg.domain.visibility import may_see
from docstokg.errors import LoadError
from docstokg.loading.read.raw_input import RawDocument
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.read.staging import Staging
from docstokg.ports import DocumentRegister, every_document

# Namespace and doc_id of the HMAC key for folder hashes, in stores of earlier versions.
KEY = ("", KEYS)

BATCH = 200
BATCH_CHARACTERS = 50_000_000

AGAIN = "run the load again: it then reads all objects"

# Pseudo folder of posted documents.
POSTED = Path("posted")

# Pseudo folder of exported files: any folder may take over their documents.
EXPORTED = Path("exported")


class SourceRegistry:
    """The documents of a namespace before a load, and the load's records.

    `rejected`: files with rejects by path; the documents of their last load are not removed.
    `contested`: ids with files for `settle`. `unchanged`: documents that the load does not read, as
    their objects are as they were.
    """

    def __init__(
        self, register: DocumentRegister, namespace: str, replace: bool, run_id: str = ""
    ) -> None:
        self._run_id = run_id
        self._register = register
        self._namespace = namespace
        self._replace = replace
        self._roots: dict[Path, str] = {}
        self._same, self._others = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.contested: list[tuple[str, SourceFile]] = []
        self._moved: dict[str, str] = {}
        self.rejected: dict[str, SourceFile] = {}
        self.unchanged: dict[str, DocumentRecord] = {}

    @cached_property
    def stored(self) -> dict[str, DocumentRecord]:
        """Return the records of the namespace before the load, by doc_id."""
        return {record.doc_id: record for record in every_document(self._register, self._namespace)}

    @cached_property
    def _key(self) -> str:
        key = self._register.text(*key_of(self._namespace)) or self._register.text(*KEY)
        return key or secrets.token_hex(32)

    def root(self, folder: Path) -> str:
        """Return the HMAC of a folder's resolved path; POSTED has its own, EXPORTED none."""
        if folder == EXPORTED:
            return ""
        if folder not in self._roots:
            place = b"posted" if folder == POSTED else os.fsencode(folder.resolve())
            self._roots[folder] = hmac.new(self._key.encode(), place, hashlib.sha256).hexdigest()
        return self._roots[folder]

    def refusal(self, file: SourceFile, document: RawDocument) -> str | None:
        """Return why a posted document may not take its id, or None.

        It exists without `replace`, or is invisible to the sender.
        """
        stored = self.stored.get(document.doc_id)
        if file.posted is None or stored is None or stored.run_id == self._run_id:
            return None
        if not self._replace:
            return "a document with this id is already loaded; set `replace` to overwrite it"
        is_visible = may_see(stored.acl, file.posted.groups)
        return None if is_visible else "no document with this id is visible to the sender"

    def contests(self, file: SourceFile, document: RawDocument) -> bool:
        """Return whether a file takes the id of a document of another folder with other text.

        `settle` decides after all files were read. A file that sets its id may take it.
        """
        stored, root = self.stored.get(document.doc_id), self.root(file.root)
        if file.posted is not None or stored is None or document.named or self._replace:
            return False
        if not root or stored.sha256 == document.digest or stored.root in ("", root):
            return False
        self._others[root, stored.root] += 1
        return True

    def note(self, file: SourceFile, document: RawDocument, staging: Staging) -> None:
        """Stage the register record of a document."""
        root, stored = self.root(file.root), self.stored.get(document.doc_id)
        is_from_folder = root and file.posted is None and not document.named
        if is_from_folder and stored and stored.sha256 == document.digest:
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
            version=file.version if file.kind == "document" else "",
            note=document.note,
            text=document.text,
            original=document.original,
        )
        staging.add_origin(document.doc_id, record.model_dump_json())

    def leave(self, folder: Path, versions: Mapping[str, str]) -> None:
        """Leave the documents of unchanged objects in the store.

        `versions`: by path in `folder`. Raises `LoadError` if the register has another version.
        """
        root = self.root(folder)
        self.unchanged = {
            doc_id: record
            for doc_id, record in self.stored.items()
            if record.root == root and versions.get(record.path) == record.version
        }
        if versions.keys() - {record.path for record in self.unchanged.values()}:
            raise LoadError(f"the register is not as the bucket has it; {AGAIN}")

    def check_unread(self, doc_id: str) -> None:
        """Raise `LoadError` if the document is one of an unchanged object, which was not read."""
        if doc_id in self.unchanged:
            path = self.unchanged[doc_id].path
            raise LoadError(f"{path!r} was not read, but has document {doc_id!r} too; {AGAIN}")

    def settle(self, staging: Staging, rejects: RejectLog) -> Iterator[tuple[SourceFile, int]]:
        """Reject the contested documents of folders that replace no moved folder.

        Over half of a moved folder's stored documents are unchanged; each is a note. Yields the
        file of each rejected document and its number of withdrawn chunks.
        """
        sizes = Counter(record.root for record in self.stored.values())
        folders = {root: folder for folder, root in self._roots.items()}
        for (root, old), same in self._same.items():
            if old in ("", *folders) or same * 2 <= sizes[old] or same <= self._others[root, old]:
                continue
            self._moved[root] = old
            rejects.notes.append(
                f"{folders[root]}: replaces a folder loaded from another path; {same} of"
                f" its {sizes[old]} documents are unchanged"
            )
        for doc_id, file in self.contested:
            if self._moved.get(self.root(file.root)) != self.stored[doc_id].root:
                rejects.add(
                    str(file.path),
                    1,
                    f"doc_id {doc_id!r} was loaded from another folder with different text;"
                    " use --prefix NAME/ to keep both or --replace-docs to replace it",
                )
                yield file, staging.withdraw(doc_id)

    def write_key(self) -> None:
        """Store the key of the folder hashes for other processes, if it is not stored."""
        if not self._register.text(*key_of(self._namespace)):
            self._note_load("", "")

    def _note_load(self, run_id: str, now: str) -> None:
        space, doc_id = key_of(self._namespace)
        about = {"run_id": run_id, "loaded_at": now}
        record = DocumentRecord(namespace=space, doc_id=doc_id, text=self._key, **about)
        self._register.put([record])

    def write(self, staging: Staging, run_id: str, after: str = "") -> Iterator[str]:
        """Write the register, with the load itself; unchanged documents keep run and time.

        Yields the last doc_id of each batch; `after`: resume after it.
        """
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._note_load(run_id, now)
        rows = ((doc_id, line) for doc_id, line in staging.origins() if doc_id > after)
        for batch in _batches(rows):
            records = [self._record(staging, *row, run_id, now) for row in batch]
            if changed := [record for record in records if self._is_changed(record)]:
                self._register.put(changed)
            yield batch[-1][0]

    def _record(
        self, staging: Staging, doc_id: str, line: str, run_id: str, now: str
    ) -> DocumentRecord:
        chunks, title, acl = staging.document_facts(doc_id)
        record = DocumentRecord.model_validate_json(line)
        facts = {"chunks": chunks, "title": record.title or title, "acl": acl}
        return record.model_copy(update={**facts, "run_id": run_id, "loaded_at": now})

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

    def deleted(self, roots: Iterable[Path], prefix: str, staging: Staging) -> list[str]:
        """Return the stored documents of these folders that this load did not see, sorted."""
        mine = self._hashes(roots)
        loaded = {doc_id for doc_id, _ in staging.origins()}
        unread = {(self.root(file.root), file.inner) for file in self.rejected.values()}
        return sorted(
            doc_id
            for doc_id, record in self.stored.items()
            if record.root in mine
            and doc_id not in loaded
            and doc_id not in self.unchanged
            and (record.named or doc_id.startswith(prefix))
            and (record.root, record.path) not in unread
        )


def _batches(rows: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH or sum(len(line) for _, line in batch) > BATCH_CHARACTERS:
            yield batch
            batch = []
    if batch:
        yield batch


def needs_consent(deleted: Sequence[str], stored: int) -> bool:
    """Return whether `deleted` are over 20 % of `stored` documents."""
    return len(deleted) * 5 > stored


def document_rows(register: DocumentRegister, namespace: str) -> Iterable[str]:
    """Yield one canonical line per document, sorted, without run ids, times and origins."""
    for record in every_document(register, namespace):
        fields = ("doc_id", "title", "acl", "chunks", "sha256", "converter")
        line = record.model_dump(mode="json", include=set(fields))
        yield f"document {json.dumps(line, sort_keys=True, ensure_ascii=False)}"
