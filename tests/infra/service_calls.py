"""What AWS services call on our behalf: no process of ours makes these calls, so none is recorded.

What our functions call, and the keys behind it, is recorded by the two fleets' tests.

Written by hand; each line names the page of AWS's documentation that says who calls what, with
whose right. `rights` turns the table into calls on the resources of one environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from docstokg.contracts.routes import ROUTES
from infra.specs import FUNCTIONS
from tests.infra.deployed import ACCOUNT, REGION, Deployed
from tests.infra.iam import NOTHING, ROOT, Call

API = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:restapi1"
OURS = {"aws:SourceAccount": ACCOUNT}
SCHEDULED = OURS | {"aws:SourceArn": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule-group/default"}
"""Who takes on a role that CDK makes for a schedule: one of our own default group."""
LIVE = {"states:StateMachineQualifier": "live"}
NETWORK = (
    "ec2:CreateNetworkInterface DescribeNetworkInterfaces DescribeSubnets DeleteNetworkInterface "
    "AssignPrivateIpAddresses UnassignPrivateIpAddresses"
)


class Right(NamedTuple):
    """A call that has to be allowed, and the page that says it is made."""

    call: Call
    page: str


def via(service: str) -> dict[str, str]:
    """The context of a use of the key that a service makes with its caller's right."""
    return {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}


def rights(deployed: Deployed) -> Iterator[Right]:
    """Every line of the table, for one environment."""
    parts = (_edge, _functions, _machines, _maps, _alarms, _background, _changes, _data, _flags)
    for rows in (*parts, _people):
        yield from rows(deployed)


def _may(
    page: str, principal: str, actions: str, resource: str, context: Mapping[str, str] = NOTHING
) -> Iterator[Right]:
    """`actions`: a service and its verbs, as "kms:Decrypt GenerateDataKey"."""
    service, _, verbs = actions.partition(":")
    for verb in verbs.split():
        yield Right(Call(principal, f"{service}:{verb}", resource, context), page)


def _assumes(service: str, role: str, context: Mapping[str, str] = NOTHING) -> Iterator[Right]:
    page = "IAM guide: id_roles_terms-and-concepts, service roles"
    return _may(page, f"{service}.amazonaws.com", "sts:AssumeRole", role, context)


def _key(deployed: Deployed) -> str:
    return deployed.arn(deployed.only("AWS::KMS::Key"))


def _role(deployed: Deployed, name: str) -> str:
    return deployed.arn(deployed.of("AWS::IAM::Role", name))


def bucket_of(deployed: Deployed, construct: str) -> str:
    """Logical id of the bucket that a construct of the data stack makes."""
    return deployed.of("AWS::S3::Bucket", construct)


def _edge(deployed: Deployed) -> Iterator[Right]:
    starter, machine = _role(deployed, "ApiStarter"), deployed.arn(deployed.machine)
    yield from _assumes("apigateway", starter)
    page = "Step Functions guide: auth-version-alias"
    yield from _may(page, starter, "states:StartSyncExecution", machine, LIVE)
    called = [(r.function, f"live/{r.method}{r.path}") for r in ROUTES if r.function]
    for name in deployed.all("AWS::ApiGateway::Authorizer"):
        called.append(("authorize", f"authorizers/{deployed.ref(name)}"))
    page = "Lambda guide: services-apigateway; apigateway-use-lambda-authorizer"
    for function, source in called:
        alias = f"{deployed.arn(deployed.function(function))}:live"
        context = {"aws:SourceArn": f"{API}/{source}"}
        yield from _may(page, "apigateway.amazonaws.com", "lambda:InvokeFunction", alias, context)


def _functions(deployed: Deployed) -> Iterator[Right]:
    for spec in FUNCTIONS:
        role = deployed.role_of(spec.name)
        yield from _assumes("lambda", role)
        if "VpcConfig" in deployed.properties(deployed.function(spec.name)):
            page = "Lambda guide: configuration-vpc, execution role permissions"
            yield from _may(page, role, NETWORK, "*")


def _machines(deployed: Deployed) -> Iterator[Right]:
    for name in (deployed.machine, deployed.loading):
        machine = deployed.properties(name)
        role = machine["RoleArn"]
        yield from _assumes("states", role, {**OURS, "aws:SourceArn": deployed.arn(name)})
        for version in machine["DefinitionSubstitutions"].values():
            page = "Step Functions guide: connect-lambda"
            yield from _may(page, role, "lambda:InvokeFunction", version)


def _maps(deployed: Deployed) -> Iterator[Right]:
    """Yield the calls of a distributed map: listing, child executions, results."""
    machine = deployed.arn(deployed.loading)
    role = deployed.properties(deployed.loading)["RoleArn"]
    execution = machine.replace(":stateMachine:", ":execution:")
    page = "Step Functions guide: iam-policies-eg-dist-map"
    yield from _may(page, role, "states:StartExecution", machine)
    watched = "states:DescribeExecution StopExecution"
    yield from _may(page, role, watched, f"{execution}:job-1")
    yield from _may(page, role, f"{watched} RedriveExecution", f"{execution}/Read:child-1")
    bucket = deployed.arn(bucket_of(deployed, "Intake"))
    page = "Step Functions guide: input-output-itemreader, IAM permissions"
    for prefix in ("sources/default/", "inbox/default/job-1/", "runs/job-1/rows/"):
        yield from _may(page, role, "s3:ListBucket", bucket, {"s3:prefix": prefix})
    page = "Step Functions guide: input-output-resultwriter, IAM permissions and KMS keys"
    results = "s3:GetObject PutObject AbortMultipartUpload ListMultipartUploadParts"
    yield from _may(page, role, results, f"{bucket}/runs/job-1/results/read/manifest.json")
    yield from _may(page, role, "kms:Decrypt GenerateDataKey", _key(deployed), via("s3"))


def _alarms(deployed: Deployed) -> Iterator[Right]:
    """Alarm to topic to key: each hop has a policy of its own."""
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
            yield from _may(page, service, "sns:Publish", topic, OURS)
        guide = "SNS guide: sns-key-management, event sources from AWS services"
        yield from _may(guide, service, "kms:Decrypt GenerateDataKey", _key(deployed), OURS)


def _background(deployed: Deployed) -> Iterator[Right]:
    key, record = _key(deployed), deployed.role_of("record")
    page = "Lambda guide: services-sqs-configure; SQS guide: sqs-key-management"
    taken = "sqs:ReceiveMessage DeleteMessage GetQueueAttributes"
    for name, reader in (("Record", record), ("Documents", deployed.role_of("documents"))):
        source = deployed.properties(deployed.of("AWS::Lambda::EventSourceMapping", name))
        yield from _may(page, reader, taken, source["EventSourceArn"])
        yield from _may(page, reader, "kms:Decrypt", key, via("sqs"))
    for name in deployed.all("AWS::Scheduler::Schedule"):
        target = deployed.properties(name)["Target"]
        role = target["RoleArn"]
        if "lambda" in target["Arn"]:
            page = "EventBridge Scheduler guide: setting-up, execution role"
            yield from _may(page, role, "lambda:InvokeFunction", target["Arn"])
        if target["Arn"].endswith(":sfn:startExecution"):
            page = "Step Functions guide: auth-version-alias"
            machine = deployed.arn(deployed.machine)
            yield from _may(page, role, "states:StartExecution", machine, LIVE)
        if "DeadLetterConfig" not in target:
            yield from _assumes("scheduler", role, SCHEDULED)
            continue
        yield from _assumes("scheduler", role, OURS)
        page = "EventBridge Scheduler guide: configuring-schedule-dlq"
        yield from _may(page, role, "sqs:SendMessage", target["DeadLetterConfig"]["Arn"])
        yield from _may(page, role, "kms:Decrypt GenerateDataKey", key, via("sqs"))
    letters = deployed.properties(deployed.only("AWS::Lambda::EventInvokeConfig"))
    failed = letters["DestinationConfig"]["OnFailure"]["Destination"]
    page = "Lambda guide: invocation-async-retain-records"
    yield from _may(page, record, "sqs:SendMessage", failed)
    yield from _may(page, record, "kms:GenerateDataKey", key, via("sqs"))


def _changes(deployed: Deployed) -> Iterator[Right]:
    """S3's and Step Functions' events to their queue, or to another; a schedule to the function."""
    key, documents = _key(deployed), deployed.role_of("documents")
    page = "EventBridge guide: eb-use-resource-based, eb-rule-dlq; SQS guide: sqs-key-management"
    for rule in deployed.all("AWS::Events::Rule"):
        (target,) = deployed.properties(rule)["Targets"]
        source = {"aws:SourceArn": deployed.arn(rule)}
        for queue in (target["Arn"], target["DeadLetterConfig"]["Arn"]):
            yield from _may(page, "events.amazonaws.com", "sqs:SendMessage", queue, source)
    yield from _may(page, "events.amazonaws.com", "kms:Decrypt GenerateDataKey", key, OURS)
    role = _role(deployed, "ChangesScheduler")
    group = deployed.properties(deployed.only("AWS::Scheduler::ScheduleGroup"))["Name"]
    schedule = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{group}/default"
    page = "EventBridge Scheduler guide: security_iam_id-based-policies; setting-up, execution role"
    setting = "scheduler:CreateSchedule GetSchedule UpdateSchedule"
    yield from _may(page, documents, setting, schedule)
    passed = {"iam:PassedToService": "scheduler.amazonaws.com"}
    yield from _may(page, documents, "iam:PassRole", role, passed)
    yield from _assumes("scheduler", role, OURS)
    alias = f"{deployed.arn(deployed.function('documents'))}:live"
    yield from _may(page, role, "lambda:InvokeFunction", alias)


def _data(deployed: Deployed) -> Iterator[Right]:
    key = _key(deployed)
    page = "CloudWatch Logs guide: encrypt-log-data-kms"
    for name in deployed.all("AWS::Logs::LogGroup"):
        context = {"kms:EncryptionContext:aws:logs:arn": deployed.arn(name).removesuffix(":*")}
        uses = "kms:Encrypt Decrypt GenerateDataKey DescribeKey"
        yield from _may(page, f"logs.{REGION}.amazonaws.com", uses, key, context)
    domain = deployed.properties(deployed.only("AWS::OpenSearchService::Domain"))
    page = "OpenSearch Service guide: createdomain-configure-slow-logs"
    for option in domain["LogPublishingOptions"].values():
        stream = option["CloudWatchLogsLogGroupArn"].removesuffix("*") + "log-stream:1"
        yield from _may(page, "es.amazonaws.com", "logs:CreateLogStream PutLogEvents", stream, OURS)
    role = _role(deployed, "Snapshots")
    bucket = deployed.arn(bucket_of(deployed, "Storage"))
    page = "OpenSearch Service guide: managedomains-snapshots, prerequisites"
    yield from _assumes("es", role, OURS)
    yield from _may(page, role, "s3:ListBucket", bucket)
    objects = "s3:GetObject PutObject DeleteObject"
    yield from _may(page, role, objects, f"{bucket}/snapshots/index-1")
    page = "S3 guide: UsingKMSEncryption, permissions"
    yield from _may(page, role, "kms:Decrypt GenerateDataKey", key, via("s3"))


def _flags(deployed: Deployed) -> Iterator[Right]:
    page = "AppConfig guide: appconfig-integration-lambda-extensions, permissions"
    for spec in FUNCTIONS:
        if "flags" in spec.uses:
            parts = deployed.variables(spec.name)["DOCSTOKG_APPCONFIG"].split("/")
            path = "application/{}/environment/{}/configuration/{}".format(*parts)
            arn = f"arn:aws:appconfig:{REGION}:{ACCOUNT}:{path}"
            reads = "appconfig:StartConfigurationSession GetLatestConfiguration"
            yield from _may(page, deployed.role_of(spec.name), reads, arn)
    (watched,) = deployed.properties(deployed.only("AWS::AppConfig::Environment"))["Monitors"]
    page = "AppConfig guide: getting-started-with-appconfig-cloudwatch-alarms-permissions"
    yield from _assumes("appconfig", watched["AlarmRoleArn"], OURS)
    yield from _may(page, watched["AlarmRoleArn"], "cloudwatch:DescribeAlarms", "*")


def _people(deployed: Deployed) -> Iterator[Right]:
    """Operators and pipelines: the policies and roles that docs/deploy.md tells them to use."""

    def policy(part: str) -> str:
        return deployed.ref(deployed.of("AWS::IAM::ManagedPolicy", part))

    loader, sources = policy("Loader"), policy("IntakeSources")
    domain = deployed.arn(deployed.only("AWS::OpenSearchService::Domain"))
    alias = deployed.template.ours.index_name
    page = "OpenSearch Service guide: ac, identity-based policies"
    for verb, path in (("Put", f"{alias}-chunks"), ("Post", "_bulk"), ("Delete", "x")):
        yield from _may(page, loader, f"es:ESHttp{verb}", f"{domain}/{path}")
    page = "OpenSearch Service guide: managedomains-snapshots, prerequisites"
    yield from _may(page, loader, "iam:PassRole", _role(deployed, "Snapshots"))
    page = "API Gateway guide: api-gateway-control-access-using-iam-policies-to-invoke-api"
    sent = ("POST/v1/documents", "DELETE/v1/documents/a%2Fb.md", "GET/v1/jobs/job-1")
    for caller_role, path in (
        ("Callers", "POST/v1/answer"),
        *(("ApiSenders", sender_path) for sender_path in sent),
    ):
        yield from _may(page, policy(caller_role), "execute-api:Invoke", f"{API}/live/{path}")
    bucket = deployed.arn(bucket_of(deployed, "Intake"))
    page = "S3 guide: security_iam_service-with-iam; UsingKMSEncryption, permissions"
    objects = "s3:GetObject PutObject DeleteObject"
    yield from _may(page, sources, objects, f"{bucket}/sources/default/a/b.md")
    yield from _may(page, sources, "s3:GetObject DeleteObject", f"{bucket}/runs/1/report.json")
    yield from _may(page, sources, "s3:DeleteObject", f"{bucket}/register/default.json.gz")
    decision = f"{bucket}/register/default/decisions/1.json"
    yield from _may(page, sources, "s3:GetObject PutObject", decision)
    for prefix in ("sources/default/", "posted/default/", "runs/1/", "register/default/"):
        yield from _may(page, sources, "s3:ListBucket", bucket, {"s3:prefix": prefix})
    yield from _may(page, sources, "kms:Decrypt GenerateDataKey", _key(deployed), via("s3"))
    role = _role(deployed, "Pruning")
    yield from _may("IAM guide: id_roles_create_for-user", ROOT, "sts:AssumeRole", role)
    page = "Lambda guide: lambda-api-permissions-ref, qualified resources"
    for spec in FUNCTIONS:
        function = deployed.arn(deployed.function(spec.name))
        yield from _may(page, role, "lambda:ListVersionsByFunction ListAliases", function)
        yield from _may(page, role, "lambda:DeleteFunction", f"{function}:3")
    page = "Step Functions guide: auth-version-alias"
    versions = "states:ListStateMachineVersions DeleteStateMachineVersion"
    described = "DescribeStateMachine DescribeStateMachineAlias"
    for name in (deployed.machine, deployed.loading):
        yield from _may(page, role, f"{versions} {described}", deployed.arn(name))
