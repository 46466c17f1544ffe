"""What AWS services call on our behalf: no process of ours makes these calls, so none is recorded.

What our functions call, and the keys behind it, is recorded by the two fleets' tests.

Written by hand; each line names the page of AWS's documentation that says who calls what, with
whose right. `rights` turns the table into calls on the resources of one environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from docstokg.contracts.routes import ROUTES
from infra.settings import environment
from infra.specs import FUNCTIONS
from tests.infra.deployed import ACCOUNT, REGION, Deployed
from tests.infra.iam import ROOT, Call

API = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:restapi1"
OURS = {"aws:SourceAccount": ACCOUNT}
SCHEDULED = OURS | {"aws:SourceArn": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule-group/default"}
"""Who takes on a role that CDK makes for a schedule: one of our own default group."""
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Right:
    """A call that has to be allowed, and the page that says it is made."""

    call: Call
    page: str


def via(service: str) -> dict[str, str]:
    """The context of a use of the key that a service makes with its caller's right."""
    return {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}


def rights(deployed: Deployed) -> Iterator[Right]:
    """Every line of the table, for one environment."""
    for rows in (_edge, _functions, _machine, _alarms, _background, _data, _flags, _people):
        yield from rows(deployed)


def _one(
    page: str, who: str, action: str, resource: str, context: Mapping[str, str] = NOTHING
) -> Right:
    return Right(Call(who, action, resource, context), page)


def _edge(deployed: Deployed) -> Iterator[Right]:
    (starter,) = (n for n in deployed.all("AWS::IAM::Role") if n.startswith("ApiStarter"))
    machine = deployed.arn(deployed.machine)
    page = "Step Functions guide: tutorial-api-gateway"
    yield _one(page, "apigateway.amazonaws.com", "sts:AssumeRole", deployed.arn(starter))
    yield _one(
        "Step Functions guide: auth-version-alias",
        deployed.arn(starter),
        "states:StartSyncExecution",
        machine,
        {"states:StateMachineQualifier": "live"},
    )
    page = "Lambda guide: services-apigateway"
    for route in ROUTES:
        if route.function:
            alias = f"{deployed.arn(deployed.function(route.function))}:live"
            source = {"aws:SourceArn": f"{API}/live/{route.method}{route.path}"}
            yield _one(page, "apigateway.amazonaws.com", "lambda:InvokeFunction", alias, source)
    for authorizer in deployed.all("AWS::ApiGateway::Authorizer"):
        alias = f"{deployed.arn(deployed.function('authorize'))}:live"
        source = {"aws:SourceArn": f"{API}/authorizers/{deployed.ref(authorizer)}"}
        page = "API Gateway guide: apigateway-use-lambda-authorizer"
        yield _one(page, "apigateway.amazonaws.com", "lambda:InvokeFunction", alias, source)


def _functions(deployed: Deployed) -> Iterator[Right]:
    for spec in FUNCTIONS:
        role = deployed.role_of(spec.name)
        page = "Lambda guide: lambda-intro-execution-role"
        yield _one(page, "lambda.amazonaws.com", "sts:AssumeRole", role)
        properties = deployed.properties(deployed.function(spec.name))
        if "VpcConfig" in properties:
            page = "Lambda guide: configuration-vpc, execution role permissions"
            for action in (
                "ec2:CreateNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:DeleteNetworkInterface",
                "ec2:AssignPrivateIpAddresses",
                "ec2:UnassignPrivateIpAddresses",
            ):
                yield _one(page, role, action, "*")


def _machine(deployed: Deployed) -> Iterator[Right]:
    for name in filter(None, (deployed.machine, deployed.loading)):
        yield from _any_machine(deployed, name)
    if deployed.loading:
        yield from _maps(deployed)


def _any_machine(deployed: Deployed, name: str) -> Iterator[Right]:
    machine = deployed.properties(name)
    role = machine["RoleArn"]
    page = "Step Functions guide: procedure-create-iam-role"
    context = {**OURS, "aws:SourceArn": deployed.arn(name)}
    yield _one(page, "states.amazonaws.com", "sts:AssumeRole", role, context)
    for version in machine["DefinitionSubstitutions"].values():
        page = "Step Functions guide: connect-lambda"
        yield _one(page, role, "lambda:InvokeFunction", version)


def _maps(deployed: Deployed) -> Iterator[Right]:
    """What a distributed map does: lists, starts children of its own machine, writes results."""
    machine = deployed.arn(deployed.loading)
    role = deployed.properties(deployed.loading)["RoleArn"]
    key = deployed.arn(deployed.only("AWS::KMS::Key"))
    execution = machine.replace(":stateMachine:", ":execution:")
    page = "Step Functions guide: iam-policies-eg-dist-map"
    yield _one(page, role, "states:StartExecution", machine)
    for action in ("states:DescribeExecution", "states:StopExecution"):
        yield _one(page, role, action, f"{execution}:job-1")
        yield _one(page, role, action, f"{execution}/Read:child-1")
    yield _one(page, role, "states:RedriveExecution", f"{execution}/Read:child-1")
    bucket = deployed.arn(bucket_of(deployed, "Intake"))
    page = "Step Functions guide: input-output-itemreader, IAM permissions"
    for prefix in ("sources/default/", "inbox/default/job-1/", "runs/job-1/rows/"):
        yield _one(page, role, "s3:ListBucket", bucket, {"s3:prefix": prefix})
    page = "Step Functions guide: input-output-resultwriter, IAM permissions"
    for action in ("GetObject", "PutObject", "AbortMultipartUpload", "ListMultipartUploadParts"):
        yield _one(page, role, f"s3:{action}", f"{bucket}/runs/job-1/results/read/manifest.json")
    page = "Step Functions guide: input-output-resultwriter, permissions for KMS keys"
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        yield _one(page, role, action, key, via("s3"))


def _alarms(deployed: Deployed) -> Iterator[Right]:
    """Alarm to topic to key: each hop has a policy of its own."""
    key = deployed.arn(deployed.only("AWS::KMS::Key"))
    topics = {
        action
        for name in deployed.all("AWS::CloudWatch::Alarm")
        for action in deployed.properties(name)["AlarmActions"]
    }
    for service, page in (
        ("cloudwatch.amazonaws.com", "CloudWatch guide: Notify_Users_Alarm_Changes"),
        ("budgets.amazonaws.com", "Cost Management guide: budgets-sns-policy"),
    ):
        for topic in topics:
            yield _one(page, service, "sns:Publish", topic, OURS)
        told = "SNS guide: sns-key-management, event sources from AWS services"
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            yield _one(told, service, action, key, OURS)


def _background(deployed: Deployed) -> Iterator[Right]:
    key = deployed.arn(deployed.only("AWS::KMS::Key"))
    record = deployed.role_of("record")
    source = deployed.properties(deployed.only("AWS::Lambda::EventSourceMapping"))
    for action in ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"):
        page = "Lambda guide: services-sqs-configure, execution role permissions"
        yield _one(page, record, action, source["EventSourceArn"])
    page = "SQS guide: sqs-key-management, permissions of a consumer"
    yield _one(page, record, "kms:Decrypt", key, via("sqs"))
    schedules = [
        deployed.properties(name)["Target"] for name in deployed.all("AWS::Scheduler::Schedule")
    ]
    invoked = [target for target in schedules if "lambda" in target["Arn"]]
    (schedule,) = (target for target in invoked if "DeadLetterConfig" in target)
    page = "EventBridge Scheduler guide: setting-up, execution role"
    for other in (target for target in invoked if target is not schedule):
        yield _one(page, "scheduler.amazonaws.com", "sts:AssumeRole", other["RoleArn"], SCHEDULED)
        yield _one(page, other["RoleArn"], "lambda:InvokeFunction", other["Arn"])
    for asking in schedules:
        if asking["Arn"].endswith(":sfn:startExecution"):
            yield from _canary(deployed, asking["RoleArn"])
    page = "EventBridge Scheduler guide: setting-up, execution role"
    yield _one(page, "scheduler.amazonaws.com", "sts:AssumeRole", schedule["RoleArn"], OURS)
    yield _one(page, schedule["RoleArn"], "lambda:InvokeFunction", schedule["Arn"])
    missed = schedule["DeadLetterConfig"]["Arn"]
    page = "EventBridge Scheduler guide: configuring-schedule-dlq"
    yield _one(page, schedule["RoleArn"], "sqs:SendMessage", missed)
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        yield _one(page, schedule["RoleArn"], action, key, via("sqs"))
    letters = deployed.properties(deployed.only("AWS::Lambda::EventInvokeConfig"))
    failed = letters["DestinationConfig"]["OnFailure"]["Destination"]
    page = "Lambda guide: invocation-async-retain-records"
    yield _one(page, record, "sqs:SendMessage", failed)
    yield _one(page, record, "kms:GenerateDataKey", key, via("sqs"))


def _canary(deployed: Deployed, role: str) -> Iterator[Right]:
    page = "EventBridge Scheduler guide: managing-targets-universal"
    yield _one(page, "scheduler.amazonaws.com", "sts:AssumeRole", role, SCHEDULED)
    machine = deployed.arn(deployed.machine)
    qualified = {"states:StateMachineQualifier": "live"}
    page = "Step Functions guide: auth-version-alias"
    yield _one(page, role, "states:StartExecution", machine, qualified)


def _data(deployed: Deployed) -> Iterator[Right]:
    key = deployed.arn(deployed.only("AWS::KMS::Key"))
    page = "CloudWatch Logs guide: encrypt-log-data-kms"
    for name in deployed.all("AWS::Logs::LogGroup"):
        context = {"kms:EncryptionContext:aws:logs:arn": deployed.arn(name).removesuffix(":*")}
        for action in ("kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"):
            yield _one(page, f"logs.{REGION}.amazonaws.com", action, key, context)
    domain = deployed.properties(deployed.only("AWS::OpenSearchService::Domain"))
    page = "OpenSearch Service guide: createdomain-configure-slow-logs"
    for option in domain["LogPublishingOptions"].values():
        stream = option["CloudWatchLogsLogGroupArn"].removesuffix("*") + "log-stream:1"
        for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
            yield _one(page, "es.amazonaws.com", action, stream, OURS)
    (snapshots,) = (n for n in deployed.all("AWS::IAM::Role") if "Snapshots" in n)
    role, bucket = deployed.arn(snapshots), deployed.arn(bucket_of(deployed, "Storage"))
    page = "OpenSearch Service guide: managedomains-snapshots, prerequisites"
    yield _one(page, "es.amazonaws.com", "sts:AssumeRole", role, OURS)
    yield _one(page, role, "s3:ListBucket", bucket)
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        yield _one(page, role, action, f"{bucket}/snapshots/index-1")
    page = "S3 guide: UsingKMSEncryption, permissions"
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        yield _one(page, role, action, key, via("s3"))


def bucket_of(deployed: Deployed, construct: str) -> str:
    """Logical id of the bucket that a construct of the data stack makes."""
    (found,) = (n for n in deployed.all("AWS::S3::Bucket") if n.startswith(construct))
    return found


def _flags(deployed: Deployed) -> Iterator[Right]:
    page = "AppConfig guide: appconfig-integration-lambda-extensions, permissions"
    for spec in FUNCTIONS:
        if "flags" in spec.uses:
            application, space, profile = deployed.variables(spec.name)["DOCSTOKG_APPCONFIG"].split(
                "/"
            )
            path = f"application/{application}/environment/{space}/configuration/{profile}"
            arn = f"arn:aws:appconfig:{REGION}:{ACCOUNT}:{path}"
            for action in ("StartConfigurationSession", "GetLatestConfiguration"):
                yield _one(page, deployed.role_of(spec.name), f"appconfig:{action}", arn)
    (watched,) = deployed.properties(deployed.only("AWS::AppConfig::Environment"))["Monitors"]
    page = "AppConfig guide: getting-started-with-appconfig-cloudwatch-alarms-permissions"
    role = watched["AlarmRoleArn"]
    yield _one(page, "appconfig.amazonaws.com", "sts:AssumeRole", role, OURS)
    yield _one(page, role, "cloudwatch:DescribeAlarms", "*")


def _people(deployed: Deployed) -> Iterator[Right]:
    """Operators and pipelines: the policies and roles that docs/deploy.md tells them to use."""
    policies = {name: deployed.ref(name) for name in deployed.all("AWS::IAM::ManagedPolicy")}
    (loader,) = (arn for name, arn in policies.items() if "Loader" in name)
    (callers,) = (arn for name, arn in policies.items() if "Callers" in name)
    domain = deployed.arn(deployed.only("AWS::OpenSearchService::Domain"))
    alias = environment(deployed.template.name).index_name
    page = "OpenSearch Service guide: ac, identity-based policies"
    for verb, path in (("Put", f"{alias}-chunks"), ("Post", "_bulk"), ("Delete", "x")):
        yield _one(page, loader, f"es:ESHttp{verb}", f"{domain}/{path}")
    (snapshots,) = (n for n in deployed.all("AWS::IAM::Role") if "Snapshots" in n)
    page = "OpenSearch Service guide: managedomains-snapshots, prerequisites"
    yield _one(page, loader, "iam:PassRole", deployed.arn(snapshots))
    page = "API Gateway guide: api-gateway-control-access-using-iam-policies-to-invoke-api"
    yield _one(page, callers, "execute-api:Invoke", f"{API}/live/POST/v1/answer")
    if deployed.loading:
        (senders,) = (arn for name, arn in policies.items() if name.startswith("ApiSenders"))
        page = "API Gateway guide: api-gateway-control-access-using-iam-policies-to-invoke-api"
        for path in ("POST/v1/documents", "DELETE/v1/documents/a%2Fb.md", "GET/v1/jobs/job-1"):
            yield _one(page, senders, "execute-api:Invoke", f"{API}/live/{path}")
    (sources,) = (arn for name, arn in policies.items() if name.startswith("IntakeSources"))
    bucket = deployed.arn(bucket_of(deployed, "Intake"))
    page = "S3 guide: security_iam_service-with-iam, actions and resources"
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        yield _one(page, sources, action, f"{bucket}/sources/default/a/b.md")
    yield _one(page, sources, "s3:GetObject", f"{bucket}/runs/1/report.json")
    for prefix in ("sources/default/", "runs/1/"):
        yield _one(page, sources, "s3:ListBucket", bucket, {"s3:prefix": prefix})
    page = "S3 guide: UsingKMSEncryption, permissions"
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        key = deployed.arn(deployed.only("AWS::KMS::Key"))
        yield _one(page, sources, action, key, via("s3"))
    (pruner,) = (n for n in deployed.all("AWS::IAM::Role") if n.startswith("Pruning"))
    role = deployed.arn(pruner)
    page = "Lambda guide: lambda-api-permissions-ref, qualified resources"
    yield _one("IAM guide: id_roles_create_for-user", ROOT, "sts:AssumeRole", role)
    for spec in FUNCTIONS:
        function = deployed.arn(deployed.function(spec.name))
        yield _one(page, role, "lambda:ListVersionsByFunction", function)
        yield _one(page, role, "lambda:ListAliases", function)
        yield _one(page, role, "lambda:DeleteFunction", f"{function}:3")
    page = "Step Functions guide: auth-version-alias"
    for name in filter(None, (deployed.machine, deployed.loading)):
        for action in (
            "ListStateMachineVersions",
            "DescribeStateMachine",
            "DescribeStateMachineAlias",
            "DeleteStateMachineVersion",
        ):
            yield _one(page, role, f"states:{action}", deployed.arn(name))
