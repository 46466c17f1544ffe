"""Entry point: document routes."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.routes import RouteName
from docstokg.domain import time_budget
from docstokg.entry import entry_point
from docstokg.errors import DocsToKGError, cause
from docstokg.ports import JobQueue, LoadRuns
from docstokg.usecases.problems import problem_reply
from docstokg.usecases.run import beginning
from docstokg.wiring import Handler, Wiring
from docstokg_functions.documents.bucket_jobs import BucketJobs
from docstokg_functions.documents.changing import (
    cancel_job,
    job_of,
    load_documents,
    remove_document,
)
from docstokg_functions.documents.listing import list_documents, list_namespaces
from docstokg_functions.documents.pages import show_page
from docstokg_functions.documents.reading import read_passage
from docstokg_functions.documents.source_loads import JOB, SourceLoads

WATCH_LOADS = "watch_loads"


def job_queue(wiring: Wiring) -> JobQueue:
    """Return the job queue: Step Functions, or that of a single server."""
    runs = wiring.load_runs()
    if runs is None:
        return wiring.job_queue()
    return BucketJobs(wiring.object_store(), runs, _bucket(wiring))


def _bucket(wiring: Wiring) -> str:
    return (wiring.settings.ingest_url or "").removeprefix("s3://")


def build(wiring: Wiring) -> Handler:
    """Return the handler with its clients; the envelope's route selects the operation."""
    register, queue, index = wiring.register(), job_queue(wiring), wiring.search_index()
    telemetry, runs = wiring.telemetry, wiring.load_runs()
    begin = beginning(telemetry, time_budget.PASSAGE_S)
    reading: Json = {"index": index, "begin": begin}
    routes: dict[RouteName, Callable[[Envelope], Reply]] = {
        "documents": partial(list_documents, register=register, **reading),
        "namespaces": partial(
            list_namespaces, register=register, index=index, queue=queue, telemetry=telemetry
        ),
        "passage": partial(read_passage, **reading),
        "load": partial(load_documents, register=register, queue=queue),
        "delete": partial(remove_document, register=register, queue=queue),
        "page": partial(
            show_page,
            register=register,
            draw=wiring.draw_page,
            telemetry=telemetry,
            **reading,
        ),
        "job": partial(job_of, queue=queue),
        "cancel": partial(cancel_job, queue=queue),
    }

    def background(event: Json, function: str, runs: LoadRuns) -> Json:
        loads = SourceLoads(runs, _bucket(wiring), telemetry)
        if event.get("job") == JOB:
            return loads.load(event, function)
        if event.get("job") == WATCH_LOADS:
            now = time.time()
            seconds = now - min(runs.unfinished().values(), default=now)
            telemetry.count("ingest_running_seconds", seconds)
            return {"seconds": seconds}
        loads.changed(event["Records"], function)
        return {}

    def handler(event: Json, context: Any) -> Json:
        if runs and event.keys() & {"job", "Records"}:
            return background(event, getattr(context, "invoked_function_arn", ""), runs)
        envelope = Envelope.model_validate(event)
        try:
            reply = routes[envelope.route](envelope)
        except DocsToKGError as error:
            request_fields = {"request_id": envelope.request_id, "route": envelope.route}
            telemetry.log("ERROR", "documents_failed", **request_fields, **cause(error))
            detail = "What is loaded cannot be read or changed now."
            reply = problem_reply(503, "unavailable", detail, envelope.request_id)
        status = str(reply.statusCode)
        telemetry.count("rag_requests_total", route=envelope.route, status=status)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
