"""Objects that a run does not read again."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from docstokg.contracts.ingest import IngestObject, IngestRun
from docstokg.contracts.records import DocumentRecord
from docstokg.errors import WrongAnswer
from docstokg.loading.context import Readers
from docstokg.loading.resolve.load_plan import Linking
from docstokg.loading.run.rows import packed, unpacked
from docstokg.loading.run.sources import RunSources
from docstokg.ports import ObjectStore

REGISTER = "register/"
# Code that determines the chunks of a document, by its place in the package.
READING_CODE = ("loading", "adapters/conversion", "contracts", "domain/text")


@cache
def code_digest() -> str:
    """Return a hash of the code that reads documents."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for folder in READING_CODE:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def version_of(item: IngestObject, readers: Readers) -> str:
    """Return the version of an object and of what reads it: `ETAG-SIZE-FINGERPRINT`."""
    reading = [code_digest(), sorted(readers.converter.versions.items()), readers.settings]
    reading.append(type(readers.pieces).__name__)
    fingerprint = hashlib.sha256(json.dumps(reading).encode()).hexdigest()[:16]
    return f"{item.etag}-{item.size}-{fingerprint}"


def known_versions(run: IngestRun, objects: ObjectStore) -> Mapping[str, str]:
    """Return the versions of the objects that the register has, by path, as last copied.

    Empty for uploads, for `replace`, and after a load that did not end.
    """
    if run.posted or run.replace:
        return {}
    try:
        (line,) = unpacked(objects.get(_copy(run.namespace)))
        versions: dict[str, str] = json.loads(line)
    except (KeyError, ValueError, WrongAnswer):
        return {}
    return versions


def forget_versions(namespace: str, objects: ObjectStore) -> None:
    """Remove the copy, before the content of the stores changes."""
    objects.delete(_copy(namespace))


def put_versions(run: IngestRun, objects: ObjectStore, linking: Linking) -> None:
    """Write the copy at the end of a load."""
    context, registry = linking.context, linking.context.registry
    root = registry.root(RunSources(run, {}).root)
    records = {
        record.doc_id: record
        for record in registry.stored.values()
        if record.doc_id not in linking.plan.removed
    }
    for doc_id, line in context.staging.origins():
        records[doc_id] = DocumentRecord.model_validate_json(line)
    versions: dict[str, set[str]] = {}
    for record in records.values():
        if record.root == root:
            versions.setdefault(record.path, set()).add(record.version)
    single = {path: max(choices) for path, choices in versions.items() if len(choices) == 1}
    objects.put(_copy(run.namespace), packed([json.dumps(single, sort_keys=True)]))


def _copy(namespace: str) -> str:
    return f"{REGISTER}{namespace}.json.gz"
