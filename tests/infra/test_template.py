"""The templates: routes, timeouts in their firing order, roles, encryption, shifts."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonata import Jsonata

from docstokg.adapters.aws.clients import SOCKET
from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.routes import ROUTES
from docstokg.domain.time_budget import CACHE_S, COUNTER_S, NAMESPACE_S, TRACE_S
from infra import templates
from infra.api import PROTECTED
from infra.settings import ENVIRONMENTS, environment
from infra.specs import FUNCTIONS, gateway_path
from infra.workflow import patient
from tests.infra.conftest import ROOT, Template, findings, infra_run
from tests.infra.gateway import render_response
from tests.infra.iam import listed
from tests.workflow.test_branches import SCENARIOS, Scenario, as_expected
from tests.workflow.test_branches import ours as outcome_of

ASL = json.loads((ROOT / "statemachine" / "answer.asl.json").read_text("utf-8"))
CONTRACT = ROOT / "docs" / "openapi.json"


def tasks(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {n: state for n, state in definition["States"].items() if state["Type"] == "Task"}


TASKS = tasks(ASL)


def function_of(state: dict[str, Any]) -> str:
    return re.sub(r"\$\{(\w+)Function\}", r"\1", state["Arguments"]["FunctionName"]).lower()


def paths(template: Template) -> dict[tuple[str, str], dict[str, Any]]:
    """(path, method) -> method properties."""
    resources = template.all("AWS::ApiGateway::Resource")

    def path(reference: Any) -> str:
        if "Fn::GetAtt" in reference:
            return ""
        resource = resources[reference["Ref"]]
        return f"{path(resource['ParentId'])}/{resource['PathPart']}"

    return {
        (path(properties["ResourceId"]) or "/", properties["HttpMethod"]): properties
        for properties in template.all("AWS::ApiGateway::Method").values()
    }


def test_every_route_exists_and_no_other(template: Template) -> None:
    expected = {(gateway_path(route), route.method) for route in ROUTES}
    expected.add(("/openapi.json", "GET"))
    if template.ours.auth == "jwt":
        expected.add((PROTECTED, "GET"))
    routes = set(paths(template))
    assert {key for key in routes if key[1] != "ANY"} == expected
    assert {path for path, method in routes if method == "ANY"} == {
        "/",
        "/{unknown+}",
        "/v1/{unknown+}",
        *(path for path, _ in expected),
    }


def test_every_route_but_health_needs_a_credential(template: Template) -> None:
    ours = template.ours
    kind = {"jwt": "CUSTOM", "iam": "AWS_IAM"}[ours.auth]
    for (path, method), properties in paths(template).items():
        if method == "ANY" or path in ("/v1/health", "/openapi.json", PROTECTED):
            assert properties["AuthorizationType"] == "NONE"
            if path != "/v1/health":
                assert properties["Integration"]["Type"] == "MOCK"
        else:
            assert properties["AuthorizationType"] == kind
            assert properties.get("ApiKeyRequired", False) is bool(ours.metering)


def test_each_caller_has_a_separate_plan_and_key(template: Template) -> None:
    ours = template.ours.metering
    plans = list(template.all("AWS::ApiGateway::UsagePlan").values())
    keys = list(template.all("AWS::ApiGateway::UsagePlanKey").values())
    assert len(plans) == len(keys) == len(template.all("AWS::ApiGateway::ApiKey")) == len(ours)
    for plan, metering in zip(plans, ours.values(), strict=True):
        assert plan["Quota"] == {"Limit": metering.daily_quota, "Period": "DAY"}
        assert plan["Throttle"] == {"BurstLimit": metering.burst, "RateLimit": metering.rate}
    stage = template.only("AWS::ApiGateway::Stage")
    (setting,) = (
        setting for setting in stage["MethodSettings"] if setting.get("ResourcePath") == "/*"
    )
    assert setting["ThrottlingRateLimit"] >= sum(metering.rate for metering in ours.values())


def test_prod_cannot_be_deleted_by_mistake(assembly: Path) -> None:
    for name in ENVIRONMENTS:
        manifest = json.loads((assembly / name / "manifest.json").read_text("utf-8"))
        for stack in (f"docstokg-{name}-data", f"docstokg-{name}"):
            properties = manifest["artifacts"][stack]["properties"]
            protected = properties.get("terminationProtection", False)
            assert protected == environment(name).termination_protection == (name == "prod")
            assert properties["tags"]["docstokg:environment"] == name


STREAMED = ("AWS_PROXY", "STREAM")


CHATS = [route for route in ROUTES if route.name in CHAT_ROUTES]


def test_the_gateway_uses_our_templates_and_nothing_else(template: Template) -> None:
    for (path, method), properties in paths(template).items():
        if method == "ANY" or path in ("/openapi.json", PROTECTED):
            continue
        integration = properties["Integration"]
        assert integration["TimeoutInMillis"] == 29_000
        if path == "/v1/answer/stream":
            assert (integration["Type"], integration["ResponseTransferMode"]) == STREAMED
            assert "response-streaming-invocations" in json.dumps(integration["Uri"])
            continue
        assert integration["Type"] == "AWS", path
        request = json.dumps(integration["RequestTemplates"])
        assert "$input.json" not in request
        assert "@@" not in request
        parameters = request.count("$!input.params().querystring")
        assert request.count("$input.body") + parameters == 1
        responses = integration["IntegrationResponses"]
        chat = next((r.name for r in CHATS if gateway_path(r) == path), "")
        workflow = chat or path in ("/v1/answer", "/v1/search", "/v1/explain")
        wanted = (
            templates.response("workflow", chat) if workflow else templates.response("function")
        )
        assert responses[0]["ResponseTemplates"] == {"application/json": wanted}
        assert [r.get("SelectionPattern") is None for r in responses] == [True, False]
        if method == "POST":
            assert integration["PassthroughBehavior"] == "NEVER"


def joined(text: dict[str, Any]) -> str:
    """Return a joined text with references as their names."""
    return "".join(part if isinstance(part, str) else part["Ref"] for part in text["Fn::Join"][1])


def test_clients_find_the_issuer_of_tokens(template: Template) -> None:
    ours = template.ours
    answers = template.all("AWS::ApiGateway::GatewayResponse").values()
    named = [
        answer["ResponseParameters"]["gatewayresponse.header.WWW-Authenticate"]
        for answer in answers
        if "gatewayresponse.header.WWW-Authenticate" in answer["ResponseParameters"]
    ]
    if ours.auth != "jwt":
        assert named == []
        return
    assert ours.tokens is not None
    refused = {answer["ResponseType"] for answer in answers if answer["StatusCode"] == "401"}
    assert len(named) == len(refused) >= 3
    method = paths(template)[PROTECTED, "GET"]
    (answer,) = method["Integration"]["IntegrationResponses"]
    metadata = render_response(joined(answer["ResponseTemplates"]["application/json"]), {}).json
    assert metadata["authorization_servers"] == [ours.tokens.issuer]
    assert metadata["bearer_methods_supported"] == ["header"]
    address = metadata["resource"]
    assert address.startswith("https://") and address.endswith(f"/{ours.stage}")
    for value in named:
        assert joined(value) == f"'Bearer resource_metadata=\"{address}{PROTECTED}\"'"


def test_the_contract_is_served_with_existing_routes_only(template: Template) -> None:
    routes = paths(template)
    responses = routes["/openapi.json", "GET"]["Integration"]["IntegrationResponses"]
    answer = render_response(responses[0]["ResponseTemplates"]["application/json"], {})
    source = json.loads(CONTRACT.read_text("utf-8"))
    assert answer.json["components"] == source["components"]
    documented = {
        (path, method.upper())
        for path, methods in answer.json["paths"].items()
        for method in methods
    }
    deployed = {(path.replace("+}", "}"), method) for path, method in routes}
    assert documented == {
        (path, method) for path, method in deployed if path in source["paths"]
    } - {(path, "ANY") for path in source["paths"]}


def state_seconds(limit: int | str, request_s: float) -> float:
    """Return the seconds of a state in a request of `request_s` seconds."""
    if isinstance(limit, int):
        return limit
    expression = Jsonata(limit.removeprefix("{%").removesuffix("%}"))
    expression.assign("plan", {"started_ms": 0, "deadline_ms": request_s * 1000})
    return float(expression.evaluate(None))


def test_timeouts_fire_from_the_inside_out(template: Template) -> None:
    """Own deadline < client < function < state < execution < route, as deployed."""
    ours = template.ours
    timeouts = {spec.name: template.function(spec.name)["Timeout"] for spec in FUNCTIONS}
    assert timeouts == {spec.name: spec.timeout_s for spec in FUNCTIONS}
    definition = json.loads(template.machine["DefinitionString"])
    machine_s = definition["TimeoutSeconds"]
    client_s = SOCKET.connect_timeout + SOCKET.read_timeout
    assert max(CACHE_S, NAMESPACE_S, COUNTER_S, TRACE_S) < client_s
    for name, state in tasks(definition).items():
        limit, function_s = state["TimeoutSeconds"], timeouts[function_of(state)]
        assert client_s < function_s, name
        if function_of(state) == "synthesize":
            # The limit of Synthesize is what is left to the deadline, and a second more.
            limit, function_s = function_s, min(ours.max_timeout_s + 1, function_s)
        elif name == "Respond":
            limit = state_seconds(limit, ours.max_timeout_s)
        assert function_s < limit < 29, name
        assert function_s < machine_s, name
    assert ours.max_timeout_s < machine_s < 29
    for name in {route.function for route in ROUTES if route.function}:
        assert timeouts.get(name, 0) < 29


def test_steps_are_retried_and_timeouts_caught_as_timeouts(template: Template) -> None:
    transient = {
        "Lambda.ServiceException",
        "Lambda.AWSLambdaException",
        "Lambda.SdkClientException",
        "Lambda.TooManyRequestsException",
    }
    for name, state in tasks(json.loads(template.machine["DefinitionString"])).items():
        (retry,) = state["Retry"]
        assert transient <= set(retry["ErrorEquals"]), name
        assert (retry["IntervalSeconds"], retry["MaxAttempts"]) == (1, 1), name
        caught = [error for catcher in state["Catch"] for error in catcher["ErrorEquals"]]
        assert ("States.Timeout" in caught) == ("Sandbox.Timedout" in caught), name
        assert caught[-1] == "States.ALL", name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_each_failure_takes_its_branch_as_deployed(prod: Template, scenario: Scenario) -> None:
    as_expected(scenario, outcome_of(scenario, json.loads(prod.machine["DefinitionString"])))


def test_states_wait_for_functions_that_start_cold(template: Template) -> None:
    """M7: twice what starting one was measured to take, beside its step; the rest is deadline."""
    ours = template.ours
    measured = json.loads((ROOT / "benchmarks" / "bundles.json").read_text())["functions"]
    for name, state in json.loads(template.machine["DefinitionString"])["States"].items():
        limit = state.get("TimeoutSeconds")
        if limit is None or "$millis()" in str(limit):
            continue
        longer = state_seconds(limit, 12) - state_seconds(TASKS[name]["TimeoutSeconds"], 12)
        assert longer == ours.cold_start_s, name
        function = function_of(TASKS[name])
        if function not in ours.snap_start:
            assert longer >= 2 * measured[function]["init_ms"] / 1000, name


def test_a_state_machine_version_names_immutable_function_versions(template: Template) -> None:
    machine = template.machine
    assert machine["StateMachineType"] == "EXPRESS"
    versions = template.all("AWS::Lambda::Version")
    named = {f"{function_of(state).title()}Function" for state in TASKS.values()}
    assert set(machine["DefinitionSubstitutions"]) == named
    for name, reference in machine["DefinitionSubstitutions"].items():
        assert reference["Ref"] in versions, name
    ours = template.ours
    # The file as it is; only what a state may wait for a cold start is the environment's.
    assert json.loads(machine["DefinitionString"]) == patient(ASL, ours.cold_start_s)
    for kind in ("AWS::Lambda::Version", "AWS::StepFunctions::StateMachineVersion"):
        for name, resource in template.resources.items():
            if resource["Type"] == kind:
                assert resource["DeletionPolicy"] == "RetainExceptOnCreate", name
                assert resource["UpdateReplacePolicy"] == "Retain", name


def test_alias_traffic_shifts_and_goes_back_on_alarm(
    dev: Template, staging: Template, prod: Template
) -> None:
    def preference(template: Template) -> dict[str, Any]:
        alias = template.only("AWS::StepFunctions::StateMachineAlias")
        assert alias["Name"] == "live"
        settings: dict[str, Any] = alias["DeploymentPreference"]
        alarms = set(template.all("AWS::CloudWatch::Alarm"))
        assert {alarm["Ref"] for alarm in settings["Alarms"]} <= alarms
        assert len(settings["Alarms"]) == 5
        return settings

    assert preference(dev)["Type"] == "ALL_AT_ONCE"
    assert preference(staging)["Type"] == "LINEAR"
    canary = preference(prod)
    assert (canary["Type"], canary["Percentage"], canary["Interval"]) == ("CANARY", 10, 20)
    starters = [
        statement
        for _, statement in prod.statements()
        if "states:StartSyncExecution" in statement["Action"]
    ]
    assert len(starters) == 3
    for statement in starters:
        assert statement["Condition"] == {
            "ForAnyValue:StringEquals": {"states:StateMachineQualifier": ["live"]}
        }


def test_execution_data_is_never_logged(template: Template) -> None:
    for machine in template.all("AWS::StepFunctions::StateMachine").values():
        logging = machine["LoggingConfiguration"]
        assert (logging["Level"], logging["IncludeExecutionData"]) == ("ALL", False)
    stage = template.only("AWS::ApiGateway::Stage")
    assert {s["DataTraceEnabled"] for s in stage["MethodSettings"]} == {False}
    assert stage["TracingEnabled"]
    line = stage["AccessLogSetting"]["Format"]
    assert json.loads(line)["request_id"] == "$context.requestId"
    assert "body" not in line
    assert "$context.path" not in line
    for acl in template.all("AWS::WAFv2::WebACL").values():
        assert acl["VisibilityConfig"]["SampledRequestsEnabled"] is False


def test_functions_are_ours_and_alone(template: Template) -> None:
    functions = template.all("AWS::Lambda::Function")
    # Nothing but what the table names: no hidden custom resources with their own runtimes.
    assert len(functions) == len(FUNCTIONS)
    roles = [json.dumps(properties["Role"]) for properties in functions.values()]
    assert len(set(roles)) == len(roles)
    for properties in functions.values():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert properties["TracingConfig"]["Mode"] == "Active"
        assert "KmsKeyArn" in properties


def test_wildcard_actions_are_absent_and_wildcard_resources_justified(template: Template) -> None:
    for name, statement in template.statements():
        actions = listed(statement["Action"])
        for action in actions:
            service, _, verb = action.partition(":")
            assert verb != "*", (name, action)
            if verb.endswith("*"):
                assert service == "kms", (name, action)
        if "*" in listed(statement["Resource"]):
            assert set(actions) <= NO_RESOURCE, (name, actions)


NO_RESOURCE = {
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
    "cloudwatch:DescribeAlarms",
}


def test_a_role_reaches_only_its_functions_services(template: Template) -> None:
    granted: dict[str, set[str]] = {}
    for name, statement in template.statements():
        if match := re.match(r"Functions([A-Z]\w+?)Role", name):
            actions = listed(statement["Action"])
            granted.setdefault(match[1], set()).update(a.split(":")[0] for a in actions)
    services = {
        "index": {"es"}, "graph": {"secretsmanager"}, "graph_writer": {"secretsmanager"},
        "graph_loader": {"secretsmanager"}, "loader": {"es"}, "intake": {"s3"},
        "model": {"secretsmanager", "bedrock"}, "reranker": {"secretsmanager"},
        "verifier": {"secretsmanager"}, "tokens": {"secretsmanager"},
        "embedder": {"secretsmanager"}, "cache": {"dynamodb"},
        "circuit": {"dynamodb"}, "flags": {"appconfig"}, "trace": {"sqs"},
        "tells": {"dynamodb"}, "workflow": {"states"}, "streams": {"states"},
    }  # fmt: skip
    everyone = {"logs", "xray", "kms", "ec2"}
    for spec in FUNCTIONS:
        allowed = set(everyone).union(*(services.get(use, set()) for use in spec.uses))
        if spec.name == "record":
            allowed.add("sqs")
        if spec.name == "mcp":
            allowed.add("lambda")
        if spec.name == "documents":
            allowed |= {"states", "sqs", "scheduler", "iam"}
        assert granted[spec.title] <= allowed, spec.name
    # Only the step that calls a model may read its key, only record may write traces.
    assert "secretsmanager" not in granted["Validate"]
    assert not granted["Retrieve"] & {"sqs", "appconfig"}


def test_only_loading_stages_may_write_to_the_index(template: Template) -> None:
    for name, statement in template.statements():
        if name.startswith("Functions") and not re.match(
            "FunctionsIngest(Resolve|Write|Close)", name
        ):
            text = json.dumps(statement)
            for verb in ("ESHttpPut", "ESHttpDelete", "_bulk", "_doc"):
                assert verb not in text, name


def test_secrets_are_references(template: Template) -> None:
    for spec in FUNCTIONS:
        variables = template.function(spec.name)["Environment"]["Variables"]
        for name, value in variables.items():
            assert not re.search("PASSWORD|API_KEY|TOKEN$", name), name
            if name == "DOCSTOKG_SECRETS":
                assert not isinstance(value, str)
                assert json.dumps(value).count("Ref") >= 1
    for secret in template.all("AWS::SecretsManager::Secret").values():
        assert "SecretString" not in secret
        assert "KmsKeyId" in secret


def test_everything_at_rest_is_encrypted_with_our_key(template: Template) -> None:
    for table in template.all("AWS::DynamoDB::Table").values():
        assert table["SSESpecification"]["SSEType"] == "KMS"
        assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    for queue in template.all("AWS::SQS::Queue").values():
        assert "KmsMasterKeyId" in queue
    for topic in template.all("AWS::SNS::Topic").values():
        assert "KmsMasterKeyId" in topic
    for group in template.all("AWS::Logs::LogGroup").values():
        assert "KmsKeyId" in group
        assert group["RetentionInDays"] in (30, 365)
    for domain in template.all("AWS::OpenSearchService::Domain").values():
        assert domain["EncryptionAtRestOptions"]["Enabled"]
        assert domain["NodeToNodeEncryptionOptions"]["Enabled"]
        assert domain["DomainEndpointOptions"]["EnforceHTTPS"]
        assert "AccessPolicies" not in domain
    assert template.only("AWS::KMS::Key")["EnableKeyRotation"]


def test_every_gateway_answer_is_a_problem(template: Template) -> None:
    """A denied token is a 401 where tokens are checked."""
    answers = template.all("AWS::ApiGateway::GatewayResponse").values()
    by_type = {answer["ResponseType"]: answer for answer in answers}
    for kind, status in {
        "UNAUTHORIZED": 401,
        "ACCESS_DENIED": 403 if template.name == "dev" else 401,
        "REQUEST_TOO_LARGE": 413,
        "UNSUPPORTED_MEDIA_TYPE": 415,
        "THROTTLED": 429,
        "QUOTA_EXCEEDED": 429,
        "INTEGRATION_TIMEOUT": 504,
        "DEFAULT_4XX": 400,
        "DEFAULT_5XX": 500,
    }.items():
        answer = by_type[kind]
        problem = json.loads(answer["ResponseTemplates"]["application/json"])
        assert int(answer["StatusCode"]) == problem["status"] == status
        parameters = answer["ResponseParameters"]
        assert parameters["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
        assert ("gatewayresponse.header.Retry-After" in parameters) == (status == 429)
        # No VTL here: only plain $context substitution works.
        assert "#" not in answer["ResponseTemplates"]["application/json"]


def test_data_outlives_the_stack_only_where_it_should(dev: Template, prod: Template) -> None:
    def policy(template: Template, kind: str) -> set[str]:
        return {r["DeletionPolicy"] for r in template.resources.values() if r["Type"] == kind}

    for kind in ("AWS::OpenSearchService::Domain", "AWS::KMS::Key", "AWS::SecretsManager::Secret"):
        assert policy(dev, kind) == {"Delete"}
        assert policy(prod, kind) == {"RetainExceptOnCreate"}


NAMES = re.compile(r"^(Name|\w*[a-z]Name|Id)$")


def test_no_retained_resource_has_a_colliding_name(template: Template) -> None:
    """A retained resource with a fixed or composed name blocks the next deployment.

    `Retain` alone would also keep what a failed first deploy made.
    """
    retained = {
        name: resource
        for name, resource in template.resources.items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }
    assert retained
    for name, resource in retained.items():
        assert resource["DeletionPolicy"] == "RetainExceptOnCreate", name
        # A version's FunctionName says what it is a version of.
        version = resource["Type"] == "AWS::Lambda::Version"
        name_keys = [key for key in resource.get("Properties", {}) if NAMES.match(key)]
        assert name_keys == (["FunctionName"] if version else []), name


def test_staging_is_production_in_kind(staging: Template, prod: Template, dev: Template) -> None:
    """A network, a firewall, tokens, snapshots: what staging lacks it cannot find out."""
    for template in (staging, prod):
        for properties in template.all("AWS::Lambda::Function").values():
            assert len(properties["VpcConfig"]["SubnetIds"]) == 3
        assert len(template.only("AWS::OpenSearchService::Domain")["VPCOptions"]["SubnetIds"]) == 3
        rule = template.only("AWS::WAFv2::WebACL")["Rules"][0]
        assert rule["Action"]["Block"]["CustomResponse"]["ResponseCode"] == 429
    kinds = [
        Counter(resource["Type"] for resource in template.resources.values())
        for template in (staging, prod)
    ]
    managers = sum("index-manager" in name for name in prod.alarms)
    assert managers == 3  # staging has no nodes for management alone
    kinds[1]["AWS::CloudWatch::Alarm"] -= managers
    assert kinds[0] == kinds[1]
    ours, theirs = staging.ours, prod.ours
    assert (ours.auth, ours.snap_start, ours.index.kind) == (
        theirs.auth,
        theirs.snap_start,
        theirs.index.kind,
    )
    assert not dev.all("AWS::WAFv2::WebACL")
    assert not any("SnapStart" in f for f in dev.all("AWS::Lambda::Function").values())


def test_an_unmapped_content_type_is_no_server_error(template: Template) -> None:
    """Passed on, a form would be the mock's status code: a 5xx that any client can cause."""
    for properties in template.all("AWS::ApiGateway::Method").values():
        integration = properties["Integration"]
        if integration["Type"] == "AWS_PROXY":  # the function that streams reads the request itself
            continue
        if properties["HttpMethod"] != "GET" or integration["Type"] == "MOCK":
            assert integration["PassthroughBehavior"] == "NEVER"


def test_templates_stay_well_below_a_megabyte(assembly: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in assembly.glob("*/*.template.json")}
    assert len(sizes) == 2 * len(ENVIRONMENTS)
    assert max(sizes.values()) <= 750_000, sizes


def test_every_acknowledgement_has_a_reason(assembly: Path) -> None:
    for name in ENVIRONMENTS:
        notes: dict[str, Any] = {}
        for path in (assembly / name).glob("*.metadata.json"):
            notes |= json.loads(path.read_text("utf-8"))
        entries = [(path, entry) for path, reasons in notes.items() for entry in reasons]
        acknowledged = [
            (path, rule, reason)
            for path, entry in entries
            if entry["type"] == "aws:cdk:acknowledged-rules"
            for rule, reason in entry["data"].items()
        ]
        assert len(acknowledged) > 30
        for path, rule, reason in acknowledged:
            assert len(reason.split()) >= 8, (path, rule, reason)
        assert [path for path, entry in entries if entry["type"] == "aws:cdk:warning"] == []


@pytest.mark.slow
def test_findings_of_the_rule_packs_end_the_synthesis(tmp_path: Path) -> None:
    """Empty reports mean something: the same packs refuse a queue without TLS or dead letters."""
    program = (
        "import sys; from pathlib import Path; from aws_cdk import aws_sqs as sqs;"
        "from infra.app import build; from infra.settings import environment;"
        "app = build(environment('dev'), out=Path(sys.argv[1]));"
        "sqs.Queue(app.node.find_child('docstokg-dev'), 'Careless');"
        "app.synth()"
    )
    done = infra_run("-c", program, str(tmp_path))
    assert done.returncode != 0
    names, places = zip(*findings(tmp_path), strict=True)
    assert set(places) == {"docstokg-dev/Careless/Resource"}
    rules = {rule.removesuffix("]").split("[")[0] for rule in names}
    assert {"AwsSolutions-SQS4", "Serverless-SQSRedrivePolicy"} <= rules


@pytest.mark.slow
def test_cfn_lint_finds_nothing(template: Template) -> None:
    """As the templates are, and without the exception for the state machine."""
    from cfnlint.api import ManualArgs, lint

    config = ManualArgs(regions=["eu-central-1"])
    for text in template.texts:
        assert [f"{m.rule.id} {m.path} {m.message}" for m in lint(text, config=config)] == []
    body = json.loads(template.texts[1])
    for resource in body["Resources"].values():
        if resource["Type"] == "AWS::StepFunctions::StateMachine":
            del resource["Metadata"]["cfn-lint"]
    matches = lint(json.dumps(body), config=config)
    # The linter's schema of states knows no JSONata expression for a number; the service does.
    numbers = r"'\S+/(TimeoutSeconds|MaxConcurrency)'"
    jsonata = re.compile(r"E3601 .*'\{% .* %\}' is not of type 'number' at " + numbers)
    assert [m for m in matches if not jsonata.search(f"{m.rule.id} {m.path} {m.message}")] == []
