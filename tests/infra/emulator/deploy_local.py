"""`make deploy-local`: the deploy guide on this machine, to its end, in an emulated account.

Bootstrap, both stacks of dev by the CDK command line, fifty documents, ten questions, the other
routes, the metrics that were really written, one changed object, a rotated secret, a deploy without
a change and one with, the roll back, a failing smoke test, a removed secret and a removed model,
the loss of both stores, destroy, and a deploy again. The stores are the real servers of
`make services`; without Java it ends after creation and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from neo4j import GraphDatabase

from docstokg.adapters.aws.s3_objects import S3Objects
from docstokg.contracts.ingest import IngestRun
from docstokg.loading.run.restoring import restore_runs
from docstokg_local.cli.tracing import aws_log_lines, lines_of, request_report
from infra.destroy import destroy
from infra.package import BUILD, unbuilt
from infra.rollout import Release
from infra.settings import environment
from tests.contract.real import empty
from tests.envelopes import event as event_of
from tests.infra.cloud import AGENT_PORT
from tests.infra.emulator.account import ACCOUNT, REGION, Account, run_live
from tests.infra.emulator.limits import COVERED
from tests.infra.emulator.run import CALLER, STACKS, Run, Stores, corpus, load_of, question_of
from tests.jvm import servers
from tests.jvm.servers import Engine
from tests.loopback import Loopback

CREATED = ("staging", "prod")
"""Environments that are only created: a VPC, a domain, tokens and a firewall are not here."""
CHANGED = "health"
"""The function whose code one deploy changes."""
FEW = 5


def agent(run: Run) -> closing[Loopback]:
    """Play AppConfig's agent from the deployed profile: its layer is not ours to run."""
    application, space, profile = run.account.outputs(STACKS[1])["FlagsProfile"].split("/")

    def latest(*_: object) -> tuple[int, bytes]:
        data = run.account.client("appconfigdata")
        session = data.start_configuration_session(
            ApplicationIdentifier=application,
            EnvironmentIdentifier=space,
            ConfigurationProfileIdentifier=profile,
        )
        configuration = data.get_latest_configuration(
            ConfigurationToken=session["InitialConfigurationToken"]
        )
        return 200, configuration["Configuration"].read()

    return closing(Loopback(latest, AGENT_PORT))


@contextmanager
def stores(folder: Path) -> Iterator[Stores | None]:
    """Start both servers for this run; None, said, where they cannot run."""
    cache = Path(os.environ.get("DOCSTOKG_CACHE_DIR", servers.DEFAULT_CACHE)).expanduser()
    reasons = [reason for which in Engine if (reason := servers.missing(which, cache))]
    if reasons:
        sys.stderr.write(f"without stores, so this ends after creation: {reasons[0]}\n")
        yield None
        return
    begun = []
    try:
        folder.chmod(0o755)  # as root, OpenSearch runs as nobody
        endpoints = {}
        for which in Engine:
            home = folder / which
            endpoints[which] = servers.start(which, home, cache=cache, port=servers.free_port())
            begun.append((which, home))
            servers.warm_up(which, endpoints[which], lambda line: None)
        yield Stores(endpoints[Engine.OPENSEARCH], endpoints[Engine.NEO4J])
    finally:
        for which, home in begun:
            servers.stop(which, home)


def emitted(run: Run) -> dict[str, set[tuple[str, ...]]]:
    """Return the metrics in the functions' output by name, each with its sets of dimensions."""
    dimension_sets: dict[str, set[tuple[str, ...]]] = {}
    for _, messages in logged(run):
        for message in messages:
            if '"_aws"' not in message:
                continue
            line = json.loads(message[message.index("{") :])
            for directive in line["_aws"]["CloudWatchMetrics"]:
                for names in directive["Dimensions"]:
                    for metric in directive["Metrics"]:
                        dimension_sets.setdefault(metric["Name"], set()).add(tuple(sorted(names)))
    return dimension_sets


def logged(run: Run) -> Iterator[tuple[str, list[str]]]:
    """Yield each log group with its messages."""
    logs = run.account.client("logs")
    groups = logs.get_paginator("describe_log_groups").paginate()
    for name in groups.search("logGroups[].logGroupName"):
        events = logs.get_paginator("filter_log_events").paginate(logGroupName=name)
        yield name, list(events.search("events[].message"))


def wanted(assembly: Path) -> dict[str, set[tuple[str, ...]]]:
    """Names of our metrics in alarms and on the dashboard, each with its sets of dimensions."""
    body = json.loads((assembly / f"{STACKS[1]}.template.json").read_text("utf-8"))
    dimension_sets: dict[str, set[tuple[str, ...]]] = {}
    for resource in body["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::CloudWatch::Alarm" and properties["Namespace"] == "DocsToKG":
            names = tuple(
                sorted(dimension["Name"] for dimension in properties.get("Dimensions", ()))
            )
            dimension_sets.setdefault(properties["MetricName"], set()).add(names)
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            text = properties["DashboardBody"]
            parts = text["Fn::Join"][1] if isinstance(text, dict) else [text]
            whole = "".join(part if isinstance(part, str) else "x" for part in parts)
            for widget in json.loads(whole)["widgets"]:
                for row in widget["properties"].get("metrics", ()):
                    if row and row[0] == "DocsToKG":
                        plain = [name for name in row[2:] if isinstance(name, str)]
                        dimension_sets.setdefault(row[1], set()).add(tuple(sorted(plain[::2])))
    return dimension_sets


def routes(run: Run) -> str:
    """The routes beside the machine."""
    for _ in range(6):  # its function starts cold, and what it says is kept for ten seconds
        status, body = run.post("health", {})
        if (status, body["status"]) == (200, "ok"):
            break
        time.sleep(10)
    assert (status, body["status"]) == (200, "ok"), body
    claim = {"text": "The Marrow weir was rebuilt in 1800."}
    status, body = run.post("check", claim)
    assert status == 200, body
    verdict = body["grounding"]["sentences"][0]["verdict"]
    walk = {"seed_ids": [f"doc:{next(iter(corpus()))}"], "namespace": "default"}
    status, body = run.post("traverse", walk)
    assert status == 200, body
    status, body = run.post("answer", {"query": ""})
    assert (status, body["code"]) == (400, "invalid_request"), body
    question = question_of("Who kept Marrow weir and Tallow weir?") | {"cache_key": "twice"}
    hits = [run.post("answer", question)[1]["diagnostics"]["cache_hit"] for _ in range(2)]
    status, body = run.post("documents", {"namespace": "default"})
    assert status == 200 and body["documents"], body
    return (
        f"health ok; check {verdict}; traverse 200; documents listed; a bad request 400; from the "
        f"cache {hits}"
    )


def operate(run: Run, assembly: Path) -> None:
    """Everything after creation that needs the stores."""
    run.fill_in()
    run.forget_secret("SecretAnthropic")
    sources = S3Objects(run.account.outputs(STACKS[0])["DocumentBucket"])
    with agent(run):
        with run.step("50 documents, killed once; again with five of another namespace") as notes:
            for number, (name, (text, _, _)) in enumerate(corpus().items()):
                for namespace in ("default", "beside") if number < FEW else ("default",):
                    sources.put(f"sources/{namespace}/{name}", text.encode())
            first, other = load_of("first"), load_of("beside", namespace="beside")
            try:
                run.ingest(first, killed_after=3)
            except KeyboardInterrupt:
                notes.append("killed after three tasks")
            with ThreadPoolExecutor() as pool:
                beside = pool.submit(run.ingest, other)
                assert (run.ingest(first), beside.result()) == ("SUCCEEDED", "SUCCEEDED")
            for run_id, count in (("first", len(corpus())), ("beside", FEW)):
                report = json.loads(sources.get(f"runs/{run_id}/report.json"))
                assert report["loaded"] == count, report
            notes.append(f"{len(corpus())} and {FEW} loaded")
        for name, act in (
            ("the first questions, functions cold, a provider's secret removed", Run.warm),
            ("10 questions through the deployed machine", lambda run: run.questions(10)),
            ("one request, traced", traced),
            ("the other routes", routes),
            (
                "metrics as written, against alarms and dashboard",
                lambda run: metrics(run, assembly),
            ),
            ("one changed object", lambda run: changed_object(run, sources)),
            ("the graph's password rotated", rotated),
        ):
            with run.step(name) as notes:
                notes.append(act(run))
        with run.step("deploy again, unchanged") as notes:
            text = run.deploy(assembly)
            assert text.count("(no changes)") == len(STACKS), text[-2000:]
            notes.append("no changes")
        with run.step("deploy a changed function") as notes:
            before = run.code_of(CHANGED)
            newer, _ = run.synthesise("newer", run.target(), _changed(run.folder))
            run.deploy(newer)
            after = run.code_of(CHANGED)
            assert after != before
            notes.append(f"{CHANGED}: {before[:8]} to {after[:8]}; {run.questions(1)}")
        with run.step("roll back: the former assembly") as notes:
            run.deploy(assembly)
            assert run.code_of(CHANGED) == before
            notes.append(f"{CHANGED}: {before[:8]}; {run.questions(1)}")
        with run.step("roll back: a failing smoke test") as notes:
            notes.append(taken_back(run))
        with run.step("a removed model and its secret: refused, then in two deploys") as notes:
            notes.append(without_a_vendor(run))
        with run.step("both stores lost, restored from the bucket") as notes:
            notes.append(restored(run, sources))


def changed_object(run: Run, sources: S3Objects) -> str:
    """One object of `sources/` gets a sentence, which answers then; no other is read."""
    name, (text, _, _) = list(corpus().items())[1]
    sources.put(f"sources/default/{name}", f"{text}\nIts boats are painted ochre.\n".encode())
    assert run.ingest(load_of("changed")) == "SUCCEEDED"
    report = json.loads(sources.get("runs/changed/report.json"))
    assert (report["loaded"], report["unchanged"]) == (len(corpus()), len(corpus()) - 1), report
    weir = text.split("\n")[0].removeprefix("# ")
    status, answer = run.post("answer", question_of(f"How are the boats of {weir} painted?"))
    assert status == 200 and "ochre" in str(answer["answer"]), answer
    return f"{report['unchanged']} of {report['loaded']} not read; the new sentence answers"


def rotated(run: Run) -> str:
    """Neo4j gets another password and ends its connections; the secret gets it too."""
    assert run.stores is not None
    graph, password = run.stores.graph, secrets.token_hex(16)
    with GraphDatabase.driver(graph.url, auth=(graph.user, graph.password)) as driver:
        statement = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
        driver.execute_query(statement, old=graph.password, new=password, database_="system")
    login = {"auth": (graph.user, password), "user_agent": "rotation"}
    with GraphDatabase.driver(graph.url, **login) as driver:
        killed = driver.execute_query(
            "CALL dbms.listConnections() YIELD connectionId, userAgent "
            "WHERE userAgent <> 'rotation' WITH collect(connectionId) AS ids "
            "CALL dbms.killConnections(ids) YIELD connectionId RETURN count(connectionId)"
        ).records[0][0]
    assert killed, "no function was connected"
    run.fill_in(password)
    return f"{killed} connections ended; {run.warm()}; {run.questions(1)}"


def restored(run: Run, sources: S3Objects) -> str:
    """A document is erased, both stores lose all, and the bucket restores what is left."""
    name, (_, question, _) = list(corpus().items())[2]
    erasure = IngestRun(run_id="erase", remove=(name,))
    erasure = erasure.model_copy(update={"prefix": erasure.inbox})
    assert run.ingest(erasure) == "SUCCEEDED"
    before = run.digest()
    empty(run.settings())
    status, lost = run.post("search", {"query": question, "top_k": 10})
    assert status == 503, lost
    for load in restore_runs("default", "restored", sources):
        assert run.ingest(load) == "SUCCEEDED"
    assert run.digest() == before
    answered = f"{run.warm()}; {run.questions(1)}"
    _, answer = run.post("search", {"query": question, "top_k": 10})
    cited = {citation["doc_id"] for citation in answer["citations"]}
    assert cited and name not in cited, answer
    return f"same digest {before[:8]}, without the erased document; {answered}"


FAILING = """
import json, sys
import boto3
from botocore.config import Config
from tests.infra.emulator.account import run_live
states = boto3.client("stepfunctions", config=Config(inject_host_prefix=False))
machine, alias = sys.argv[1], sys.argv[1] + ":live"
def deploy():
    fails = {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "Bad"}}}
    states.update_state_machine(stateMachineArn=machine, definition=json.dumps(fails))
    newer = states.publish_state_machine_version(stateMachineArn=machine)["stateMachineVersionArn"]
    route = {"stateMachineVersionArn": newer, "weight": 100}
    states.update_state_machine_alias(stateMachineAliasArn=alias, routingConfiguration=[route])
def smoke():
    sys.exit(run_live(states, alias, sys.argv[2])["status"] != "SUCCEEDED")
"""


def taken_back(run: Run) -> str:
    """A machine that fails every question is deployed; its alias answers from the one before."""
    states = run.account.client("stepfunctions")
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:docstokg-dev"
    good = states.publish_state_machine_version(stateMachineArn=machine)["stateMachineVersionArn"]
    route = {"stateMachineVersionArn": good, "weight": 100}
    states.create_state_machine_alias(name="live", routingConfiguration=[route])
    _, question, word = next(iter(corpus().values()))
    event = json.dumps(event_of(question_of(question), "answer", CALLER, "taken-back"))
    deploy, smoke = (
        [sys.executable, "-c", FAILING + call, machine, event] for call in ("deploy()", "smoke()")
    )
    clients = [run.account.client(service) for service in ("cloudformation", "lambda")]
    try:
        Release("dev", states, *clients).rollout(deploy, lambda _: subprocess.call(smoke) == 0)
    except SystemExit as failure:
        message = str(failure)
    else:
        raise AssertionError("the smoke test passed")
    reply = json.loads(run_live(states, f"{machine}:live", event)["output"])
    assert reply["statusCode"] == 200 and word in reply["body"], reply
    definition = states.describe_state_machine(stateMachineArn=good)["definition"]
    states.update_state_machine(stateMachineArn=machine, definition=definition)
    states.delete_state_machine_alias(stateMachineAliasArn=f"{machine}:live")
    return message


def without_a_vendor(run: Run) -> str:
    """Claude's models go: not with the data stack first, and no question fails."""
    models = tuple(model for model in run.target().models if not model.startswith("claude"))
    fewer = replace(run.target(), models=models)
    assembly, _ = run.synthesise("refused", fewer, BUILD / "host", compared=True)
    options = "--app", str(assembly), "--require-approval", "never"
    refused = run.account.cdk("deploy", "--all", *options, fails=True)
    assert "still reads" in refused and "SecretsAnthropic" in refused, refused
    run.account.cdk("deploy", STACKS[1], "--exclusively", *options)
    assembly, _ = run.synthesise("fewer", fewer, BUILD / "host", compared=True)
    run.deploy(assembly)
    assert "SecretAnthropic" not in run.account.outputs(STACKS[0])
    named = question_of("Who?") | {"synthesis": {"enabled": True, "model": "claude-3-haiku"}}
    status, body = run.post("answer", named)
    assert (status, body["code"]) == (400, "invalid_request"), body
    return f"{run.whole()}; {run.warm()}; {run.questions(1)}"


def traced(run: Run) -> str:
    """Return the last line of `docstokg trace` for a search."""
    _, question, _ = next(iter(corpus().values()))
    status, _ = run.post("search", {"query": question, "top_k": 3})
    assert status == 200
    lines = lines_of(aws_log_lines(run.account.client, "dev", run.last), run.last)
    assert lines and lines[-1]["event"] == "request", lines
    return list(request_report(lines))[-1]


def metrics(run: Run, assembly: Path) -> str:
    """Fail when a metric is written with other dimensions than an alarm or a graph reads."""
    printed, asked_for = emitted(run), wanted(assembly)
    assert printed, "no function printed a metric"
    seen = printed.keys() & asked_for.keys()
    wrong = {name for name in seen if not printed[name] & asked_for[name]}
    assert not wrong, {name: (printed[name], asked_for[name]) for name in wrong}
    silent = sorted(asked_for.keys() - printed.keys())
    return f"{len(seen)} of {len(asked_for)} seen; not in this run: {', '.join(silent)}"


def _changed(folder: Path) -> Path:
    """The bundles once more, one function with another byte in it; the rest is linked."""
    newer = folder / "bundles"
    newer.mkdir()
    for bundle in (BUILD / "host").iterdir():
        if bundle.is_dir() and bundle.name != CHANGED:
            (newer / bundle.name).symlink_to(bundle)
    shutil.copytree(BUILD / "host" / CHANGED, newer / CHANGED)
    (newer / CHANGED / "changed.txt").write_text("another byte\n", encoding="utf-8")
    return newer


def go(run: Run) -> None:
    """The guide's commands, in its order."""
    with run.step("bootstrap") as notes:
        run.account.cdk("bootstrap", f"aws://{ACCOUNT}/{REGION}")
        notes.append("cdk bootstrap, no environment named")
        refused = run.account.cdk("deploy", "--all", "--require-approval", "never", fails=True)
        assert "say which environment" in refused, refused
    with run.step("synthesise dev") as notes:
        assembly, changed = run.synthesise("first", run.target(), BUILD / "host")
        notes.append(changed)
    with run.step("deploy both stacks") as notes:
        run.deploy(assembly)
        notes.append(run.whole())
    if run.stores is not None:
        operate(run, assembly)
    with ThreadPoolExecutor(1) as pool:
        # The other environments share no stack with dev, which is deleted meanwhile.
        others = pool.submit(create_others, run)
        for name in ("destroy", "deploy again", "destroy again"):
            with run.step(name) as notes:
                if name == "deploy again":
                    run.deploy(assembly)
                    notes.append(run.whole())
                else:
                    destroy(run.target(), run.account, notes.append)
        others.result()


def create_others(run: Run) -> None:
    """Synthesise and create staging and prod, which get no requests."""
    for name in CREATED:
        with run.step(f"{name}, up to creation") as notes:
            target = replace(environment(name), account=ACCOUNT)
            assembly, changed = run.synthesise(name, target, BUILD / "host")
            run.deploy(assembly)
            notes.append(run.whole(f"docstokg-{name}-data", f"docstokg-{name}"))
            notes.append(changed)


def complaints(run: Run) -> str:
    """The last errors that functions logged, for a run that failed."""
    lines = []
    for name, messages in logged(run):
        texts = [message.rstrip() for message in messages][-12:]
        if any(word in text for text in texts for word in ("ERROR", "WARNING", "Error")):
            lines += [name, *(f"  {text[:300]}" for text in texts)]
    return "\n".join(lines)


def report(run: Run) -> str:
    """The run and the emulator's limits, as Markdown."""
    lines = ["| step | s | |", "|---|---|---|"]
    lines += [f"| {name} | {seconds:.1f} | {note} |" for name, seconds, note in run.rows]
    total = sum(seconds for _, seconds, _ in run.rows)
    lines += [f"| **all** | {total:.1f} | |", ""]
    lines += ["| the emulator cannot | here | covered by |", "|---|---|---|"]
    lines += [f"| {subject} | {instead} | `{tests}` |" for subject, instead, tests in COVERED]
    return "\n".join(lines) + "\n"


def main() -> None:
    """`python -m tests.infra.emulator.deploy_local [--out FILE]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, help="write the report there too")
    options = parser.parse_args()
    if late := unbuilt("host"):
        raise SystemExit(f"not built, or older than the sources: {', '.join(late)}; make package")
    with (
        tempfile.TemporaryDirectory(prefix="deploy-local-") as named,
        stores(Path(named)) as endpoints,
    ):
        account = Account(Path(named) / "account")
        os.environ.update(account.variables)
        run = Run(account, endpoints, Path(named))
        try:
            go(run)
        except BaseException as error:
            run.failure = run.failure or f"failed between two steps: {error!r}"
            sys.stderr.write(f"{complaints(run)}\n{account.log()}\n")
            traceback.print_exc()
        finally:
            sys.stdout.write(text := report(run))
            sys.stdout.flush()
            if options.out:
                options.out.write_text(text, encoding="utf-8")
            account.close()
    if run.failure:
        raise SystemExit(f"make deploy-local: {' '.join(run.failure.split())[:400]}")


if __name__ == "__main__":
    main()
