"""What a Map iterates over: items read or in the input, selected, and put together in batches."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sfnx.testing import Failure

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.ports import ObjectStore
from docstokg_local.engine.endings import DataLimitExceeded, compact, hold_limit, text_bytes
from docstokg_local.engine.expressions import Values
from docstokg_local.engine.states import MapFields

Buckets = Mapping[str, ObjectStore]
"""By the names a definition has for them."""


def child_inputs(fields: MapFields, values: Values, buckets: Buckets) -> Iterator[tuple[Any, int]]:
    """Give each iteration's input and how many items it takes; reads as it goes.

    Raises `Failure` for what a Catch may see, `DataLimitExceeded` for an input that is too large.
    """
    selected = _selected(_entries(fields, values, buckets), fields, values)
    if fields.batcher is None:
        for one in selected:
            hold_limit(one, "an item")
            yield one, 1
        return
    for batch in _batches(selected, fields.batcher(values)):
        yield batch, len(batch["Items"])


def _entries(fields: MapFields, values: Values, buckets: Buckets) -> Iterator[dict[str, Any]]:
    """Give {"Value"} for each item, with its "Key" where the items are an object's members."""
    if fields.reader is not None:
        yield from ({"Value": item} for item in _read(fields.reader(values), buckets))
        return
    items = values["states"]["input"] if fields.items is None else fields.items(values)
    if isinstance(items, dict) and fields.distributed and fields.items is not None:
        yield from ({"Key": key, "Value": member} for key, member in items.items())
    elif isinstance(items, list):
        yield from ({"Value": item} for item in items)
    else:
        raise Failure("States.QueryEvaluationError", "what a Map iterates over is no array")


def _selected(
    entries: Iterator[dict[str, Any]], fields: MapFields, values: Values
) -> Iterator[Any]:
    states = values["states"]
    for index, entry in enumerate(entries):
        if fields.selector is None:
            yield entry if "Key" in entry else entry["Value"]
            continue
        context = {**states["context"], "Map": {"Item": {"Index": index, **entry}}}
        yield fields.selector({**values, "states": {**states, "context": context}})


def _batches(items: Iterator[Any], batcher: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Fill batches in order, each as full as both limits let it be."""
    most_items = batcher.get("MaxItemsPerBatch", float("inf"))
    most_bytes = min(batcher.get("MaxInputBytesPerBatch", STATE_LIMIT_BYTES), STATE_LIMIT_BYTES)
    around = {"BatchInput": batcher["BatchInput"]} if "BatchInput" in batcher else {}
    bare = text_bytes(compact({**around, "Items": []}))
    batch: list[Any] = []
    size = bare
    for item in items:
        more = text_bytes(compact(item))
        if batch and (len(batch) >= most_items or size + more > most_bytes):
            yield {**around, "Items": batch}
            batch, size = [], bare
        # The guide does not say what an item does that fits no batch; it must not pass here.
        if size + more > most_bytes:
            raise DataLimitExceeded(f"an item of {more} bytes fits no batch")
        batch.append(item)
        size += more + len(",")
    if batch:
        yield {**around, "Items": batch}


def _read(reader: Mapping[str, Any], buckets: Buckets) -> Iterator[Any]:
    arguments = reader["Arguments"]
    config = reader.get("ReaderConfig", {})
    bucket = buckets.get(arguments["Bucket"])
    if bucket is None:
        raise Failure("States.ItemReaderFailed", f"there is no bucket {arguments['Bucket']}")
    if reader["Resource"].endswith("listObjectsV2"):
        items = _objects(bucket, arguments.get("Prefix", ""))
    else:
        items = _dataset(bucket, arguments["Key"], config["InputType"])
    return islice(items, config.get("MaxItems"))


def _objects(bucket: ObjectStore, prefix: str) -> Iterator[dict[str, Any]]:
    """Give every object under a prefix as Step Functions passes it on, page after page."""
    after = ""
    while page := bucket.list(prefix, after):
        for listed in page:
            yield {
                "Etag": f'"{listed.etag}"',
                "Key": listed.key,
                "LastModified": listed.modified,
                "Size": listed.size,
                "StorageClass": "STANDARD",
            }
        after = page[-1].key


def _dataset(bucket: ObjectStore, key: str, kind: str) -> Iterator[Any]:
    try:
        text = bucket.get(key).decode("utf-8")
        items = (
            json.loads(text)
            if kind == "JSON"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except (KeyError, ValueError) as broken:
        raise Failure("States.ItemReaderFailed", f"{key}: {broken}") from broken
    if not isinstance(items, list):
        raise Failure("States.ItemReaderFailed", f"{key} holds no array")
    yield from items
