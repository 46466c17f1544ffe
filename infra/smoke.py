"""Smoke test: `make smoke URL=...`."""

import json
import math
import os
import secrets
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer
import urllib3

from infra.specs import MOST_DEGRADED

# A slash and a percent sign must pass through the gateway.
FERRIES = "quay/ferries 50%.txt"
TEXTS = {
    "beacons.txt": "The Orsel beacon glows amber during fog. Its keeper trims the lamp at dusk.",
    FERRIES: "The Marrow ferry leaves Tallow Quay at noon. It carries at most forty goats.",
    "weirs.txt": "The Quillon weir was rebuilt in 1931 after the spring flood broke its sluice.",
}
QUESTION = "When does the Marrow ferry leave Tallow Quay?"
CLAIM = "The Marrow ferry leaves Tallow Quay at noon."
ODD = "It's @@ \U0001f41f: where is Tallow Quay?"
ALARM = "test"
# Probability that no question reaches a version which has a share of the traffic.
MISSED = 0.001
WAIT_S = 120.0
LIMIT_S = 40.0
JOB_S, PAUSE_S = 900.0, 1.0


class Wrong(Exception):
    """The environment gave a wrong answer."""


class Answer(NamedTuple):
    """Status and JSON body of one response."""

    status: int
    body: Any


# Method, URL, body -> authentication headers.
Sign = Callable[[str, str, bytes], Mapping[str, str]]


class Service(NamedTuple):
    """The address of a deployment and its authentication."""

    url: str
    sign: Sign = lambda method, url, body: {}

    def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send one request and return the answer, also for error statuses.

        A body that is not JSON becomes `{"text": ...}`. Raise `Wrong` without an
        answer.
        """
        url = self.url.rstrip("/") + path
        headers = {"Content-Type": "application/json", **self.sign(method, url, body or b"")}
        try:
            answer = urllib3.request(
                method, url, body=body, headers=headers, timeout=LIMIT_S, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Wrong(f"{method} {url}: {error}") from error
        try:
            return Answer(answer.status, answer.json())
        except ValueError:
            return Answer(answer.status, {"text": answer.data.decode("utf-8", "replace")})

    def post(self, path: str, **fields: Any) -> Answer:
        """POST `fields` as a JSON object; see `ask`."""
        return self.request("POST", path, json.dumps(fields).encode())


def expect(right: bool, answer: Answer, problem: str) -> None:
    """Raise `Wrong` with the answer unless `right`."""
    if not right:
        raise Wrong(f"{problem}: {answer.status} {json.dumps(answer.body)[:400]}")


def refuses(service: Service) -> None:
    """Raise `Wrong` unless gateway and validate refuse invalid requests with the right status."""
    long = json.dumps({"query": "x" * 70_000}).encode()
    for method, path, body, status in (
        ("POST", "/v1/answer", b"not json", 400),
        ("POST", "/v1/answer", b"", 400),
        ("POST", "/v1/answer", long, 413),
        ("GET", "/v1/answer", None, 405),
        ("GET", "/nothing-here", None, 404),
    ):
        answer = service.request(method, path, body)
        rule = f"{method} {path} with {len(body or b'')} bytes must be {status}"
        expect(answer.status == status and answer.body.get("status") == status, answer, rule)


def answers(service: Service, namespace: str, share: int = 100) -> None:
    """Ask QUESTION and ODD in turn; raise `Wrong` at the first wrong response.

    Right is a 200 that cites the document FERRIES and repeats the question unchanged; at most
    MOST_DEGRADED per cent may be degraded. `share`: per cent of the traffic that the version under
    test has; below 100 questions repeat.
    """
    synthesis = {
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 256},
    }
    count = 2 if share == 100 else math.ceil(math.log(MISSED) / math.log(1 - share / 100))
    degraded: list[str] = []
    for number in range(count):
        query = (QUESTION, ODD)[number % 2]
        answer = service.post("/v1/answer", query=query, namespace=namespace, **synthesis)
        expect(answer.status == 200, answer, "no answer")
        documents = {citation["doc_id"] for citation in answer.body["citations"]}
        expect(FERRIES in documents, answer, "the document that says it is not cited")
        degraded += [", ".join(answer.body["diagnostics"]["degraded_reasons"])]
        expect(answer.body["query"] == query, answer, "the question came back changed")
    reasons = [reason for reason in degraded if reason]
    message = f"{len(reasons)} of {count} degraded: {'; '.join(sorted(set(reasons)))}"
    expect(len(reasons) * 100 <= MOST_DEGRADED * count, answer, message)


def routes_answer(service: Service, namespace: str) -> None:
    """Ask every other route once; raise `Wrong` at the first wrong response."""
    question: dict[str, Any] = {"query": QUESTION, "namespace": namespace}
    message = {"role": "user", "content": QUESTION}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "search", "arguments": question}
    synthesis = {"enabled": True, "model": "extractive"}
    for path, body, text in (
        ("/v1/search", question, FERRIES),
        ("/v1/answer/stream", {**question, "synthesis": synthesis}, FERRIES),
        (
            "/v1/chat/completions",
            {"model": f"extractive@{namespace}", "messages": [message]},
            '"content"',
        ),
        ("/v1/check", {"text": CLAIM, "namespace": namespace}, "supported"),
        ("/v1/traverse", {"seed_ids": [f"doc:{FERRIES}"], "namespace": namespace}, "nodes"),
        ("/mcp", call, "ferries 50%"),
    ):
        answer = service.post(path, **body)
        whole = json.dumps(answer.body, ensure_ascii=False)
        expect(answer.status == 200 and text in whole, answer, f"POST {path} without {text!r}")
    listed = service.request("GET", f"/v1/documents?namespace={namespace}")
    expect(listed.status == 200 and FERRIES in json.dumps(listed.body), listed, "no list")


def model_answers(service: Service, namespace: str, model: str) -> None:
    """Ask a language model once; raise `Wrong` if it did not write the answer."""
    synthesis = {"enabled": True, "model": model}
    answer = service.post("/v1/answer", query=QUESTION, namespace=namespace, synthesis=synthesis)
    expect(answer.status == 200, answer, f"no answer by {model}")
    reasons = answer.body["diagnostics"]["degraded_reasons"]
    failed = [reason for reason in reasons if reason.startswith("llm_")]
    expect(not failed, answer, f"{model} did not answer: {failed}")


def is_empty(service: Service, namespace: str) -> None:
    """Wait until the namespace has no passages; raise `Wrong` after 120 s."""
    for _ in tries(WAIT_S):
        answer = service.post("/v1/search", query=QUESTION, namespace=namespace)
        if empty := answer.status == 200 and not answer.body["citations"]:
            break
    expect(empty, answer, "what was deleted is still found")


def tries(most_s: float, pause_s: float = 2.0) -> Iterator[None]:
    """Yield None once, and again after each pause until `most_s` seconds are over."""
    until = time.monotonic() + most_s
    yield
    while time.monotonic() <= until:
        time.sleep(pause_s)
        yield


@contextmanager
def loaded(service: Service, namespace: str) -> Iterator[None]:
    """Load three documents before the block and remove them after it.

    Raise `Wrong` if that fails.
    """
    documents = [{"doc_id": doc_id, "text": text} for doc_id, text in TEXTS.items()]
    begun = service.post("/v1/documents", namespace=namespace, documents=documents)
    expect(begun.status == 202, begun, "documents cannot be sent: may this caller load?")
    job = _finished_job(service, begun)
    expect(job.body["loaded"] == len(TEXTS), job, "not every document was loaded")
    try:
        yield
    finally:
        for doc_id in TEXTS:
            name = urllib.parse.quote(doc_id, safe="")
            removal = service.request("DELETE", f"/v1/documents/{name}?namespace={namespace}")
            expect(removal.status == 202, removal, f"{doc_id} cannot be removed")
            _finished_job(service, removal)


def _finished_job(service: Service, begun: Answer) -> Answer:
    for _ in tries(JOB_S, PAUSE_S):
        job = service.request("GET", f"/v1/jobs/{begun.body['job_id']}")
        expect(job.status == 200, job, "the job is not there")
        if job.body["state"] not in ("queued", "running"):
            break
    expect(job.body["state"] == "done", job, "the job is not done")
    return job


def alarms_reach_the_topic(environment: str, cloudwatch: Any) -> None:
    """Set the alarm `test`; raise `Wrong` unless its action succeeds within 120 s."""
    name = f"docstokg-{environment}-{ALARM}"
    started = time.time() - 5
    for state in ("ALARM", "OK"):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="make smoke")
    for _ in tries(WAIT_S):
        history = cloudwatch.describe_alarm_history(
            AlarmName=name, HistoryItemType="Action", StartDate=started, MaxRecords=10
        )["AlarmHistoryItems"]
        summaries = [item["HistorySummary"] for item in history]
        if any(text.startswith("Successfully executed action") for text in summaries):
            return
        if failed := [text for text in summaries if text.startswith("Failed")]:
            raise Wrong(f"alarm {name} could not tell anybody: {failed[0]}")
    raise Wrong(f"alarm {name} told nobody within {WAIT_S:.0f} s")


def smoke(
    service: Service, report: Callable[[str], object], share: int = 100, model: str = ""
) -> None:
    """Run all checks that need no environment's name; raise `Wrong` at a failure.

    `share`: see `answers`. `model`: a language model to ask once, if any.
    """
    namespace = f"smoke-{secrets.token_hex(4)}"
    contract = service.request("GET", "/openapi.json")
    expect(contract.status == 200 and "paths" in contract.body, contract, "no contract")
    report("up: the contract is served")
    refuses(service)
    report("refuses what it must")
    with loaded(service, namespace):
        report(f"loaded three documents into {namespace}")
        health = service.request("GET", "/v1/health")
        expect(health.status == 200 and health.body["status"] == "ok", health, "not healthy")
        report("index and graph are up")
        answers(service, namespace, share)
        report("answers with citations, not degraded")
        routes_answer(service, namespace)
        report("every route answers")
        if model:
            model_answers(service, namespace, model)
            report(f"{model} answers")
    is_empty(service, namespace)
    report("deleted, and found no more")


def bearer(token: str, key: str) -> Sign:
    """Return authentication by a token and, unless empty, the usage plan's key."""
    headers = {"Authorization": f"Bearer {token}"} | ({"X-Api-Key": key} if key else {})
    return lambda method, url, body: headers


def sigv4(region: str) -> Sign:
    """Return authentication by this shell's AWS credentials; raise `Wrong` if there are none."""
    import boto3
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    credentials = boto3.session.Session().get_credentials()
    if credentials is None:
        raise Wrong("no AWS credentials in this shell")
    signer: Any = SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region)

    def sign(method: str, url: str, body: bytes) -> Mapping[str, str]:
        request = AWSRequest(method, url, data=body, headers={"Content-Type": "application/json"})
        signer.add_auth(request)
        return dict(request.headers.items())

    return sign


def minted(url: str, variables: Mapping[str, str]) -> str:
    """Return an access token by OAuth's client credentials (RFC 6749, 4.4).

    Raise `Wrong` if refused, or without SMOKE_CLIENT_ID and SMOKE_CLIENT_SECRET.
    """
    fields = {"grant_type": "client_credentials", "scope": variables.get("SMOKE_SCOPE", "")}
    parts = [variables.get(name, "") for name in ("SMOKE_CLIENT_ID", "SMOKE_CLIENT_SECRET")]
    if not all(parts):
        raise Wrong("SMOKE_TOKEN_URL also needs SMOKE_CLIENT_ID and SMOKE_CLIENT_SECRET")
    answer = urllib3.request(
        "POST",
        url,
        body=urllib.parse.urlencode({name: value for name, value in fields.items() if value}),
        headers=urllib3.make_headers(basic_auth=":".join(parts))
        | {"Content-Type": "application/x-www-form-urlencoded"},
        timeout=LIMIT_S,
    )
    if answer.status != 200:
        raise Wrong(f"{url} answered {answer.status} to client credentials")
    return str(answer.json()["access_token"])


def service_of(url: str, env: str, token: str = "", key: str = "") -> Service:
    """Return a deployment with a caller's token, else this shell's credentials if `env`, else none.

    Without a token, the variable SMOKE_TOKEN_URL names an issuer's endpoint (see `minted`). Raise
    `Wrong` without credentials, ValueError for an unknown `env`.
    """
    if not token and (token_url := os.environ.get("SMOKE_TOKEN_URL")):
        token = minted(token_url, os.environ)
    if token:
        return Service(url, bearer(token, key))
    if not env:
        return Service(url)
    from infra.settings import environment

    return Service(url, sigv4(environment(env).region))


def _print_line(text: str) -> None:
    sys.stdout.write(f"ok  {text}\n")


def main(
    url: Annotated[str, typer.Option(envvar="URL")],
    env: str = "",
    token: Annotated[str, typer.Option(envvar="SMOKE_TOKEN")] = "",
    key: Annotated[str, typer.Option(envvar="SMOKE_KEY")] = "",
    share: Annotated[int, typer.Option(min=1, max=100)] = 100,
    model: Annotated[str, typer.Option(envvar="SMOKE_MODEL")] = "",
) -> None:
    """Test a deployment by its output `Url`, or a server on this machine.

    TOKEN is that of a caller, KEY that of the usage plan. Without a token, requests are signed
    (IAM) if ENV names an environment of environments.toml. SHARE: per cent of the traffic that the
    version under test has. MODEL: a language model to ask once. SystemExit at a failure.
    """
    try:
        smoke(service_of(url, env, token, key), _print_line, share, model)
        if env:
            import boto3

            from infra.settings import environment

            region = environment(env).region
            alarms_reach_the_topic(env, boto3.client("cloudwatch", region_name=region))
            _print_line("an alarm reached its topic")
    except Wrong as exc:
        raise SystemExit(f"WRONG  {exc}") from exc


if __name__ == "__main__":
    typer.run(main)
