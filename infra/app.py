"""Synthesis of one environment."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import aws_cdk as cdk
import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from docstokg.settings import unknown_variables
from infra.data_stack import DataStack
from infra.package import unbuilt
from infra.readiness import cautions, contradictions, obstacles
from infra.settings import ENVIRONMENTS, Environment, environment
from infra.specs import ROOT
from infra.stack import RunStack

BUNDLES = ROOT / "build" / "aarch64"
# Variable in which the CDK command line passes its output folder.
CLI = "CDK_OUTDIR"


def build(target: Environment, *, out: Path | None = None, bundles: Path | None = None) -> cdk.App:
    """Return the app of one environment with both rule packs; `bundles` None uses the sources.

    Templates of sources cannot be deployed. Raise ValueError or `Misconfigured` for invalid
    settings.
    """
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(outdir=str(out) if out else None, context=context)
    run = RunStack(app, target, DataStack(app, target), bundles)
    if bundles is None:
        run.add_metadata("docstokg:code", "sources, for inspection only: run `make package`")
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    return app


def still_read(running: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Return, sorted, the outputs that `running` reads and the data stack lost with their resource.

    Names without `PublishOutput`. `running`: template of the deployed functions; `data`: new
    template of the data stack.
    """
    imports = set(re.findall(r'"OutputName": "(\w+)"', json.dumps(running)))
    return sorted(
        output.removeprefix("PublishOutput")
        for output in imports - data["Outputs"].keys()
        if not any(resource in output for resource in data["Resources"])
    )


def refuse_removals(app: cdk.App, target: Environment, session: Any) -> None:
    """Mark the data stack with an error if it removes a resource that deployed functions read.

    `session`: a boto3 session that may assume CDK's deploy role.
    """
    name = f"docstokg-{target.name}"
    data = app.synth().get_stack_by_name(f"{name}-data")
    partition = session.get_partition_for_region(target.region)
    role = str(data.assume_role_arn).replace("${AWS::Partition}", partition)
    assumed = session.client("sts").assume_role(RoleArn=role, RoleSessionName="docstokg")
    keys = assumed["Credentials"]
    running = session.client(
        "cloudformation",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    ).get_template(StackName=name)["TemplateBody"]
    if outputs := still_read(running, data.template):
        cdk.Annotations.of(app.node.find_child(f"{name}-data")).add_error(
            f"{name} still reads {', '.join(outputs)}: deploy the functions without it first, "
            f"`cdk deploy {name} --exclusively -c env={target.name}`, then all"
        )
        app.synth(force=True)


def missing(target: Environment, *, sources: bool = False) -> list[str]:
    """Return the problems that prevent a deployment from this checkout.

    `sources`: ignore bundles.
    """
    problems = obstacles(target)
    if not sources and (late := unbuilt("aarch64")):
        problems.append(f"not built, or older than the sources: {', '.join(late)}; `make package`")
    return problems


def deployable(name: str) -> Environment:
    """Return an environment; raise SystemExit with all problems that prevent its deployment.

    ValueError lists the known names.
    """
    target = environment(name)
    if problems := missing(target):
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise SystemExit(f"{name} cannot be deployed from here:{lines}")
    return target


def main(
    environments: Annotated[list[str] | None, typer.Argument()] = None,
    out: Path = ROOT / "cdk.out",
    sources: bool = False,
) -> None:
    """Write the templates of each environment to a folder of its name in OUT.

    SOURCES: ignore built bundles. Contradictions end with exit code 1; other problems, as example
    values, are warnings, but not for the CDK command line, which passes `-c env=NAME`.
    """
    if unknown := unknown_variables(os.environ):
        raise SystemExit("\n".join(unknown))
    if CLI in os.environ:
        _for_cli()
        return
    for name in environments or ["dev"]:
        target = environment(name)
        if refused := contradictions(target):
            raise SystemExit("\n".join(f"{name}: {problem}" for problem in refused))
        for problem in missing(target, sources=sources) + cautions(target):
            sys.stderr.write(f"warning: {name}: {problem}\n")
        bundles = None if sources or unbuilt("aarch64") else BUNDLES
        folder = out / name
        build(target, out=folder, bundles=bundles).synth()
        for stack in (f"docstokg-{name}-data", f"docstokg-{name}"):
            text = (folder / f"{stack}.template.json").read_text(encoding="utf-8")
            count, size = len(json.loads(text)["Resources"]), len(text.encode()) // 1024
            sys.stdout.write(f"{stack}: {count} resources, {size} KiB, no findings\n")


def _for_cli() -> None:
    """`cdk bootstrap` needs a stack: an empty one whose error blocks a deploy."""
    app = cdk.App()
    name = app.node.try_get_context("env")
    if not name:
        choices = ", ".join(f"-c env={name}" for name in sorted(ENVIRONMENTS))
        empty = cdk.Stack(app, "no-environment")
        cdk.Annotations.of(empty).add_error(f"say which environment: {choices}")
        app.synth()
        return
    target = deployable(str(name))
    for caution in cautions(target):
        sys.stderr.write(f"warning: {name}: {caution}\n")
    app = build(target, bundles=BUNDLES)
    try:
        refuse_removals(app, target, boto3.session.Session(region_name=target.region))
    except (BotoCoreError, ClientError) as exc:  # as before the first deploy
        sys.stderr.write(f"warning: {name}: not compared with the deployed functions: {exc}\n")


if __name__ == "__main__":
    typer.run(main)
