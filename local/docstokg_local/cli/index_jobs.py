"""Change shards, agree to removals, rebuild from the bucket, write the usage of a deployment.

Run `python -m docstokg_local.cli.index_jobs JOB`. The index is configured as for `docstokg load`;
the caller needs the rights of the loader.
"""

import csv
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from docstokg.errors import Misconfigured, Unavailable
from docstokg.settings import Settings
from docstokg_local.cli.exit_codes import leave, run
from docstokg_local.cli.options import argument, option
from docstokg_local.cli.printing import echo

if TYPE_CHECKING:
    from docstokg.ports import LoadRuns
    from docstokg.wiring import Wiring

POLL_S = 5.0
USAGE = ("day", "namespace", "route", "requests", "documents", "tokens", "model_usd")

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command()
def resize() -> None:
    """Copy the index to the configured shards and replicas while it answers questions."""
    echo("\n".join(_wiring().resizing().resize()) or "replicas set; the shards were right")


def _wiring() -> "Wiring":
    from docstokg.wiring import Wiring

    return Wiring(Settings.from_environment(os.environ))


def _machine(wiring: "Wiring") -> "LoadRuns":
    runs = wiring.load_runs()
    if runs is None:
        raise Misconfigured("DOCSTOKG_INGEST_MACHINE_ARN is not set: the output IngestMachine")
    return runs


@app.command()
def rebuild(
    namespace: Annotated[str, argument("NAMESPACE", "Namespace whose index or graph was lost.")],
) -> None:
    """Load a namespace again from its bucket alone: uploads in their order, then `sources/`.

    At the end the decisions of `docstokg entities` are written again. The variables
    DOCSTOKG_INGEST_MACHINE_ARN and DOCSTOKG_INGEST_URL name machine and bucket.
    """
    from docstokg.loading.run.restoring import copied_decisions, put_decisions, restore_runs
    from docstokg_local.loading.stores import stores_of

    wiring = _wiring()
    runs, objects = _machine(wiring), wiring.object_store()
    bucket = (os.environ.get("DOCSTOKG_INGEST_URL") or "").partition("://")[2]
    name = f"rebuild-{int(time.time()):x}"
    for number, load in enumerate(restore_runs(namespace, name, objects)):
        execution = f"{name}-{number}"
        runs.start(execution, load.model_dump() | {"bucket": bucket})
        while (state := runs.find(execution)) is None or not state.finished:
            time.sleep(POLL_S)
        if state.failed:
            raise Unavailable(
                f"run {execution} failed: runs/{load.run_id}/report.json; begin again"
            )
        echo(f"{load.prefix} loaded")
    if decisions := copied_decisions(namespace, objects):
        put_decisions(namespace, stores_of(wiring), decisions)
        echo(f"{len(decisions)} decisions about names restored")


@app.command()
def agree(run_id: Annotated[str, argument("RUN", "Name of the run that kept documents.")]) -> None:
    """Load `sources/` again, and remove as many deleted documents as that run kept.

    The variables DOCSTOKG_INGEST_MACHINE_ARN and DOCSTOKG_INGEST_URL name machine and bucket.
    """
    wiring = _wiring()
    runs = _machine(wiring)
    run = runs.find(run_id)
    if run is None:
        raise Misconfigured(f"there is no run {run_id!r}")
    report = json.loads(wiring.object_store().get(f"runs/{run_id}/report.json"))
    if not (kept_back := report.get("kept_back_count", 0)):
        raise Misconfigured(f"run {run_id!r} kept no document")
    again = f"{run_id.rpartition('-')[0] or run_id}-{int(time.time()):x}"
    runs.start(again, {**run.arguments, "run_id": again, "max_removed": kept_back})
    echo(f"{again} removes up to {kept_back} documents")


@app.command()
def usage(
    environment: Annotated[str, argument("ENV", "Deployment, read with this shell's rights.")],
    days: int = option("--days", "Number of days until now.", "N", default=31),
) -> None:
    """Print requests, loaded documents, tokens and model costs as CSV.

    One row per day, namespace and route, by the deployment's saved query `usage`.
    """
    import boto3

    logs, now = boto3.client("logs"), int(time.time())
    name = f"docstokg-{environment}/usage"
    saved = logs.describe_query_definitions(queryDefinitionNamePrefix=name)["queryDefinitions"]
    if not saved:
        raise Misconfigured(f"there is no saved query {name}: deploy {environment} again")
    query = logs.start_query(
        logGroupNames=saved[0]["logGroupNames"],
        queryString=saved[0]["queryString"],
        startTime=now - days * 86_400,
        endTime=now,
        limit=10_000,
    )["queryId"]
    while (answer := logs.get_query_results(queryId=query))["status"] in ("Scheduled", "Running"):
        time.sleep(POLL_S)
    if answer["status"] != "Complete":
        raise Unavailable(f"the query ended as {answer['status']}")
    table = csv.DictWriter(sys.stdout, USAGE, restval=0)
    table.writeheader()
    table.writerows({cell["field"]: cell["value"] for cell in row} for row in answer["results"])


if __name__ == "__main__":
    leave(run(app))
