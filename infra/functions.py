"""Lambda functions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import models
from infra.base import Stack
from infra.data_stack import DataStack
from infra.flags import PORT, Flags, agent_layer
from infra.intake import grant_posting, grant_stage
from infra.nag import acknowledge, acknowledge_stars
from infra.network import Network
from infra.removal import RETAIN, log_group
from infra.rights import allow
from infra.specs import FUNCTIONS, ROOT, FunctionSpec
from infra.tracequeue import TraceQueue
from infra.variables import chosen, settings_of

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
METRICS_NAMESPACE = "DocsToKG"  # docstokg.adapters.aws.powertools writes there


class Function(Construct):
    """A function with role, logs, version and alias `live`."""

    def __init__(
        self,
        stack: Stack,
        scope: Construct,
        spec: FunctionSpec,
        variables: Mapping[str, str],
        layers: Sequence[lambda_.ILayerVersion] = (),
        network: Network | None = None,
    ) -> None:
        super().__init__(scope, spec.title)
        self.spec, environment, bundles = spec, stack.target, stack.bundles
        name = f"docstokg-{environment.name}-{spec.name}"
        code = bundles / spec.name if bundles else ROOT / spec.folder
        self.logs = log_group(self, "Logs", stack)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.logs.grant_write(self.role)
        reach: dict[str, Any] = {}
        if network is not None:
            group = network.reading if spec.name == "ingest_read" else network.group
            subnets = ec2.SubnetSelection(subnets=network.vpc.private_subnets)
            reach = {"vpc": network.vpc, "vpc_subnets": subnets, "security_groups": [group]}
            # CDK adds these only to roles it creates itself.
            allow(self.role, INTERFACES, "*")
        if "flags" in spec.uses:
            agent = lambda_.LayerVersion.from_layer_version_arn(self, "Agent", agent_layer(stack))
            layers = [*layers, agent]
        snap_start = spec.name in environment.snap_start
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=spec.handler,
            code=lambda_.Code.from_asset(str(code)),
            layers=list(layers),
            memory_size=spec.memory_mb,
            ephemeral_storage_size=cdk.Size.mebibytes(spec.storage_mb),
            timeout=cdk.Duration.seconds(spec.timeout_s),
            role=self.role,
            log_group=self.logs,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE,
            environment=dict(variables),
            environment_encryption=stack.key,
            reserved_concurrent_executions=environment.concurrency.get(spec.name),
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            current_version_options=lambda_.VersionOptions(
                # Older state machine versions may use it; infra.prune removes unused ones.
                removal_policy=RETAIN,
                description="Immutable; named by state machine versions",
            ),
            **reach,
        )
        self.live = lambda_.Alias(
            self, "Live", alias_name="live", version=self.function.current_version
        )
        if snap_start:
            acknowledge(self.function, PUBLISHED, "@aws-cdk/aws-lambda:snapStartRequirePublish")
        acknowledge_stars(self.role, XRAY, "*")
        newest = ("AwsSolutions-L1", "Serverless-LambdaLatestVersion")
        acknowledge(self.function, ONE_PYTHON, *newest)
        acknowledge(self.function, SYNCHRONOUS, "Serverless-LambdaDLQ")

    def let_invoke(self, others: Mapping[str, "Function"]) -> None:
        """Allow calling `others` at their aliases.

        `DOCSTOKG_ROUTE_FUNCTIONS` lists them as `NAME=ARN`.
        """
        arns = [f"{name}={other.live.function_arn}" for name, other in others.items()]
        self.function.add_environment("DOCSTOKG_ROUTE_FUNCTIONS", ",".join(arns))
        for other in others.values():
            other.live.grant_invoke(self.role)


INTERFACES = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]
PUBLISHED = "A version is published with every change, and only versions are invoked."
XRAY = (
    "X-Ray's PutTraceSegments and PutTelemetryRecords have no resource; in a VPC so have the "
    "network interfaces of a function, which do not exist before it runs."
)
ONE_PYTHON = (
    "Python 3.13 is the version the dependencies are locked, compiled and tested for; it moves "
    "with requires-python, not by itself."
)
SYNCHRONOUS = (
    "The state machine and the gateway wait for the answer; the trace queue has a dead letter "
    "queue of its own, and so has the nightly clean-up, which alone is asynchronous."
)


# DynamoDB actions on the cache, by use; `tells` and `streams` reach only answers in progress.
CACHED = {"cache": ("GetItem", "PutItem"), "tells": ("PutItem",), "streams": ("GetItem",)}


class Functions(Construct):
    """All functions."""

    def __init__(self, stack: Stack, data: DataStack, flags: Flags, traces: TraceQueue) -> None:
        super().__init__(stack, "Functions")
        self._environment, self._data = stack.target, data
        self._flags, self._traces = flags, traces
        bundles = stack.bundles
        shared = bundles / "layer" if bundles else ROOT / "layers" / "common"
        uncompiled = None if bundles else ["**/__pycache__/*.py[co]"]
        layer = lambda_.LayerVersion(
            Construct(self, "Layer"),
            "Common",
            code=lambda_.Code.from_asset(str(shared), exclude=uncompiled),
            description="docstokg: contracts, domain, ports, adapters, wiring",
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
            # Published functions keep their layer after its deletion.
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.by_name: dict[str, Function] = {}
        for spec in FUNCTIONS:
            variables = self._variables(spec)
            function = Function(stack, self, spec, variables, [layer], data.network)
            self._grant(function)
            self.by_name[spec.name] = function
        if secret := chosen(self._environment).get("receipt_key"):
            signer = self.by_name["respond"].role
            allow(signer, ["secretsmanager:GetSecretValue"], str(secret))

    def _variables(self, spec: FunctionSpec) -> dict[str, str]:
        environment, data = self._environment, self._data
        values = {
            "DOCSTOKG_ENVIRONMENT": environment.name,
            # The only writable folder of a function.
            "DOCSTOKG_CACHE_DIR": "/tmp/docstokg",  # noqa: S108 - private to the sandbox
            **settings_of(environment),
        }
        graph = {"DOCSTOKG_GRAPH_URL": environment.graph_url}
        index = {"DOCSTOKG_INDEX_URL": data.search.url, "DOCSTOKG_INDEX_AUTH": "sigv4-es"}
        per_use: dict[str, dict[str, str]] = {
            "index": index,
            "loader": index,
            "graph": graph,
            "graph_writer": graph,
            "graph_loader": graph,
            "intake": {"DOCSTOKG_INGEST_URL": f"s3://{data.intake.bucket.bucket_name}"},
            "model": {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"},
            "flags": {
                "DOCSTOKG_APPCONFIG": self._flags.path,
                "AWS_APPCONFIG_EXTENSION_POLL_INTERVAL_SECONDS": "30",
                "AWS_APPCONFIG_EXTENSION_PREFETCH_LIST": self._flags.prefetch,
                "AWS_APPCONFIG_EXTENSION_HTTP_PORT": str(PORT),
            },
            "trace": {"DOCSTOKG_TRACES": self._traces.queue.queue_url},
            "streams": {"AWS_LAMBDA_EXEC_WRAPPER": f"/var/task/{spec.package}/wrapper"},
        }
        if environment.tokens is not None:
            tokens: dict[str, str] = asdict(environment.tokens)
            per_use["tokens"] = {f"DOCSTOKG_JWT_{k.upper()}": v for k, v in tokens.items()}
        for use in sorted(spec.uses):
            values.update(per_use.get(use, {}))
        tables = {"cache": data.state.cache, "circuit": data.state.circuit}
        used = spec.uses | ({"cache"} if spec.uses & CACHED.keys() else set())
        if entries := [f"{use}={table.table_name}" for use, table in tables.items() if use in used]:
            values["DOCSTOKG_TABLES"] = ",".join(entries)
        if mine := data.secrets.of(spec.uses):
            values["DOCSTOKG_SECRETS"] = ",".join(secret.secret_arn for secret in mine)
        return values

    def _grant(self, function: Function) -> None:
        role, uses = function.role, function.spec.uses
        search, intake, state = self._data.search, self._data.intake, self._data.state
        self._data.secrets.grant_read(role, uses)
        if "index" in uses:
            search.grant_read(role)
        if "loader" in uses:
            search.grant_load(role)
        if "intake" in uses and function.spec.loads:
            grant_stage(function.spec.name, role, intake)
        elif "intake" in uses:
            grant_posting(role, intake)
        for use in uses & CACHED.keys():
            state.grant(role, state.cache, CACHED[use], "" if use == "cache" else "told:*")
        if "circuit" in uses:
            state.grant(role, state.circuit, ["GetItem", "PutItem", "UpdateItem"])
        if "flags" in uses:
            self._flags.grant_read(role)
        if "trace" in uses:
            self._traces.let_send(role)
        if model_names := models.bedrock_models(self._environment, uses):
            models.let_invoke(role, model_names)
