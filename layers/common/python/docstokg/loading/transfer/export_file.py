"""A file written by `docstokg export` as sources of a load."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from docstokg.contracts.model import Contract
from docstokg.errors import LoadError
from docstokg.loading.context import LoadOptions, LoadReport, Progress, RecordedModel, Stores
from docstokg.loading.names.candidates import RULE
from docstokg.loading.pipeline import UPSTREAM, load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import EXPORTED
from docstokg.loading.read.sources import Kind, SourceFile
from docstokg.ports import encoder_of

FORMAT = 2
MANIFEST = "manifest.json"
# Files of an export, `NAME.jsonl`, in load order.
PARTS: tuple[Kind, ...] = ("documents", "entities", "relations", "chunks")
LARGEST_MANIFEST = 100_000
# Maximum compression ratio of a part; JSON lines do not exceed it.
MAX_RATIO = 1000


class Manifest(Contract):
    """The manifest of an exported file."""

    format: int
    namespace: str
    embedding_model: str | None = None
    dimension: int | None = Field(None, ge=1, le=65536)
    sparse_model: str | None = None
    recogniser: str = ""
    counts: dict[str, int] = {}
    digest: str = ""

    def stores(self, stores: Stores) -> Stores:
        """Return the ports of a load with the models that the file records."""
        embedder, sparse, names = None, None, None
        if self.embedding_model not in (None, UPSTREAM):
            recorded = RecordedModel(self.embedding_model or "", self.dimension or 0)
            embedder = encoder_of(stores.embedder, recorded.model) or recorded
        if self.sparse_model is not None:
            sparse = stores.sparse_encoder
            if sparse is None or sparse.model != self.sparse_model:
                sparse = RecordedModel(self.sparse_model)
        if self.recogniser not in ("", RULE):
            names = stores.names
            if names is None or names.model != self.recogniser:
                names = RecordedModel(self.recogniser)
        return replace(
            stores, embedder=embedder, sparse_encoder=sparse, names=names, multilingual=None
        )

    def options(self, namespace: str, replace_docs: bool = False) -> LoadOptions:
        """Return the options of a load into a namespace."""
        has_encoder = self.embedding_model not in (None, UPSTREAM) or self.sparse_model is not None
        return LoadOptions(namespace, embed=has_encoder, replace_docs=replace_docs)


def manifest_of(path: Path) -> Manifest:
    """Read a file's manifest; raise `LoadError` unless it is a readable export."""
    try:
        with zipfile.ZipFile(path) as file:
            _check_names(file, path)
            if file.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
                raise LoadError(f"{path}: its manifest is too large")
            manifest = Manifest.model_validate_json(file.read(MANIFEST))
    except (zipfile.BadZipFile, KeyError, ValidationError, NotImplementedError, RuntimeError) as no:
        raise LoadError(f"{path} is not a file written by `docstokg export`") from no
    except OSError as broken:
        raise LoadError(f"{path} cannot be read: {broken.strerror}") from broken
    if manifest.format != FORMAT:
        raise LoadError(
            f"{path} has format {manifest.format}, this version reads {FORMAT}; export it again"
        )
    return manifest


def _check_names(file: zipfile.ZipFile, path: Path) -> None:
    entries = file.infolist()
    names = {MANIFEST, *(f"{name}.jsonl" for name in PARTS)}
    # An export of another format has other parts, and is refused by its manifest.
    if not {MANIFEST, "chunks.jsonl"} <= {entry.filename for entry in entries}:
        raise LoadError(f"{path} is not a file written by `docstokg export`")
    for entry in entries:
        if entry.filename in names and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
            raise LoadError(
                f"{path}: {entry.filename} unpacks to more than the maximum size of a text"
            )


@contextmanager
def unpacked(path: Path) -> Iterator[list[SourceFile]]:
    """Yield the parts of an export as source files, unpacked into a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="docstokg-export-") as folder,
        zipfile.ZipFile(path) as file,
    ):
        # Rejects show the name of the file.
        parts = {kind: Path(folder, path.name, f"{kind}.jsonl") for kind in PARTS}
        file.extractall(Path(folder, path.name), [part.name for part in parts.values()])
        yield [SourceFile(part, kind, part.name, EXPORTED) for kind, part in parts.items()]


def load_export(
    path: Path,
    namespace: str | None,
    stores: Stores,
    rejects: RejectLog,
    replace_docs: bool = False,
    progress: Progress | None = None,
) -> LoadReport:
    """Load an exported file with the recorded output of its models; see `pipeline.load`.

    `namespace`: None for its own. Raises `LoadError` if the file is no export.
    """
    manifest = manifest_of(path)
    options = manifest.options(namespace or manifest.namespace, replace_docs)
    with unpacked(path) as files:
        return load(files, options, manifest.stores(stores), rejects, progress)
