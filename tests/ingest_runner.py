"""Runs `ingest.asl.json` on sfnx, over any functions and any bucket.

sfnx reads the items one after another, in batches by their number alone, waits between no tries
and writes no result files; all else of the definition is decided as AWS decides it.
"""

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sfnx.testing as sfnx

from docstokg.loading.run.rows import every_object
from docstokg.ports import ObjectStore
from docstokg.wiring import Handler, Wiring
from docstokg_local.engine.engine import Execution, failure_of
from docstokg_local.engine.limits import transferred

DEFINITION = Path(__file__).resolve().parents[1] / "statemachine" / "ingest.asl.json"
STAGES = ("read", "encode", "names", "resolve", "write", "close")


def stage_functions(wiring: Wiring) -> dict[str, Handler]:
    """Give the handlers under the names the definition has for them."""
    return {
        f"Ingest{stage.title()}Function": importlib.import_module(
            f"docstokg_functions.ingest.{stage}.handler"
        ).build(wiring)
        for stage in STAGES
    }


def run_ingest(
    functions: Mapping[str, Handler],
    objects: ObjectStore,
    run: Mapping[str, Any],
) -> Execution:
    """Load what is below `run["prefix"]`."""
    definition = json.loads(re.sub(r"\$\{(\w+)\}", r"\1", DEFINITION.read_text("utf-8")))

    def task(call: sfnx.Call) -> object:
        arguments: Any = call.arguments
        if call.resource.endswith("listObjectsV2"):
            assert arguments["Bucket"] == run["bucket"]
            return [
                {"Etag": f'"{entry.etag}"', "Key": entry.key, "Size": entry.size}
                for entry in every_object(objects, arguments["Prefix"])
            ]
        if call.resource.endswith("s3:putObject"):
            assert arguments["Bucket"] == run["bucket"]
            objects.put(arguments["Key"], json.dumps(arguments["Body"]).encode())
            return {}
        payload, _ = transferred(arguments["Payload"], call.state)
        try:
            result = functions[arguments["FunctionName"]](payload, None)
        except Exception as error:
            raise failure_of(error) from error
        return {"Payload": transferred(result, call.state)[0]}

    done = sfnx.run(definition, dict(run), task)
    if done.error is not None:
        return Execution("FAILED", None, done.error, done.cause, done.states)
    return Execution("SUCCEEDED", done.output, states=done.states)
