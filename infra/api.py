"""The HTTP API."""

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.routes import ROUTES, Route
from docstokg.domain.time_budget import ROUTE_S
from infra import templates
from infra.base import Stack
from infra.functions import Function
from infra.nag import acknowledge
from infra.page import PATHS
from infra.removal import RETAIN, log_group
from infra.rights import policy_of
from infra.settings import Tokens
from infra.specs import ROOT, gateway_path
from infra.workflow import Workflow

# 29 s is a new account's limit; it must expire last (docs/deploy.md).
TIMEOUT = cdk.Duration.seconds(ROUTE_S)
STATUSES = ("200", "400", "404", "405", "429", "500")


NO_CREDENTIAL = apigateway.AuthorizationType.NONE
HEADER = "method.response.header."
OPENAPI = ROOT / "docs" / "openapi.json"
CONTRACT = "/openapi.json"
KEYS = "/.well-known/docstokg-keys.json"
PROTECTED = "/.well-known/oauth-protected-resource"
OPEN = (
    "Open on purpose: the contract is public, health says states and times only, and an unknown "
    "path or method answers 404 or 405 without reaching anything."
)
OPEN_PAGE = "Open on purpose: static files; everything they call needs a token."
NOT_COGNITO = (
    "Callers are authenticated by {how}; namespaces and groups travel in its claims, which a "
    "user pool would not carry."
)
VALIDATED_BY_VALIDATE = (
    "A model check at the gateway lists one error in its own form; validate lists all of them as "
    "problem+json, and the template passes the body on as base64, never as text."
)
LOG_POLICY = (
    "arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
)
LOG_ROLE = (
    "The gateway's own policy for the account's log role, which every API of the account shares."
)

NOT_JSON = "The body must be application/json."
ONE_SEGMENT = "A document or a job, whose name is a part of the path."
# Gateway response type -> status, code, detail.
PROBLEMS = {
    "DEFAULT_4XX": (400, "bad_request", "The gateway refused the request."),
    "DEFAULT_5XX": (500, "internal_error", "The request could not be completed."),
    "UNAUTHORIZED": (401, "unauthorized", "A valid token is needed, and a metered caller's key."),
    "MISSING_AUTHENTICATION_TOKEN": (401, "unauthorized", "A valid credential is needed."),
    "ACCESS_DENIED": (403, "forbidden", "This credential may not do that."),
    "EXPIRED_TOKEN": (401, "unauthorized", "The credential has expired."),
    "INVALID_SIGNATURE": (401, "unauthorized", "The signature is wrong."),
    "INVALID_API_KEY": (403, "forbidden", "The API key is not this caller's."),
    "WAF_FILTERED": (403, "forbidden", "The firewall refused the request."),
    "RESOURCE_NOT_FOUND": (404, "not_found", "There is nothing at this path."),
    "REQUEST_TOO_LARGE": (413, "too_large", "The body may have 65536 bytes at most."),
    "UNSUPPORTED_MEDIA_TYPE": (415, "unsupported_media_type", NOT_JSON),
    "THROTTLED": (429, "throttled", "Too many requests."),
    "QUOTA_EXCEEDED": (429, "quota_exceeded", "The quota is used up."),
    "INTEGRATION_TIMEOUT": (504, "timeout", "The request did not finish in time."),
    "INTEGRATION_FAILURE": (500, "internal_error", "The request could not be completed."),
}
RETRY_AFTER = {"THROTTLED": "1", "QUOTA_EXCEEDED": "3600"}


class Api(Construct):
    """Regional REST API."""

    def __init__(self, stack: Stack, workflow: Workflow, functions: dict[str, Function]) -> None:
        super().__init__(stack, "Api")
        self._environment = environment = stack.target
        self._workflow, self._functions = workflow, functions
        origin = environment.cors_origin
        self._cors = {"Access-Control-Allow-Origin": f"'{origin}'"} if origin else {}
        plans = environment.metering.values()
        self.access_logs = log_group(self, "AccessLogs", stack)
        self.api = apigateway.RestApi(
            self,
            "Rest",
            rest_api_name=f"docstokg-{environment.name}",
            description="Questions to evidence: answers whose every claim is a source span",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # The authoriser returns the key, and only to the caller it belongs to.
            api_key_source_type=apigateway.ApiKeySourceType.AUTHORIZER if plans else None,
            # Compress bodies over one kilobyte, like the local server.
            min_compression_size=cdk.Size.kibibytes(1),
            # The account's log role must outlive this environment.
            cloud_watch_role=True,
            cloud_watch_role_removal_policy=RETAIN,
            default_cors_preflight_options=_preflight(environment.cors_origin),
            deploy_options=apigateway.StageOptions(
                stage_name=environment.stage,
                variables={"edge": templates.edge(environment.iam_namespaces, origin)},
                tracing_enabled=True,
                metrics_enabled=environment.detailed_metrics,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                # Full request and response data would log questions.
                data_trace_enabled=False,
                access_log_destination=apigateway.LogGroupLogDestination(self.access_logs),
                access_log_format=_access_log_format(),
                throttling_rate_limit=2 * sum(plan.rate for plan in plans) or 100,
                throttling_burst_limit=2 * sum(plan.burst for plan in plans) or 200,
                # Public routes must not use up capacity for questions.
                method_options=_open_limits("page" in functions),
            ),
        )
        acknowledge(self.api, VALIDATED_BY_VALIDATE, "AwsSolutions-APIG2")
        self._execution_logs(stack)
        gateway = iam.ServicePrincipal("apigateway.amazonaws.com")
        self._starter = iam.Role(self, "Starter", assumed_by=gateway)
        self._starter.add_to_policy(workflow.starting())
        self._caller = templates.caller(
            environment.auth, environment.iam_namespaces, environment.iam_load
        )
        self._authorizer, self._authorization = None, apigateway.AuthorizationType.IAM
        if environment.auth == "jwt":
            self._authorizer = apigateway.RequestAuthorizer(
                self,
                "Jwt",
                handler=functions["authorize"].live,
                # Also the key of the cached reply.
                identity_sources=[
                    apigateway.IdentitySource.header(name)
                    for name in ("Authorization", *(["X-Api-Key"] if plans else []))
                ],
                results_cache_ttl=cdk.Duration.seconds(60),
            )
            self._authorization = apigateway.AuthorizationType.CUSTOM
        for route in ROUTES:
            self._add(route)
        self._contract()
        if self._authorizer is not None and environment.tokens is not None:
            self._protected(environment.tokens)
        self._unrouted()
        if "page" in functions:
            self._page(functions["page"])
        self._problems()
        self._meter()
        if environment.domain_name:
            self._domain()
        acknowledge(self.api, LOG_ROLE, f"AwsSolutions-IAM4[Policy::{LOG_POLICY}]")
        self.callers = self._callers("Callers", "ask questions of", loads=False)
        self.senders = self._callers("Senders", "send documents to", loads=True)
        how = "a Lambda authoriser (JWT)" if self._authorizer else "IAM (SigV4)"
        acknowledge(self.api, NOT_COGNITO.format(how=how), "AwsSolutions-COG4")
        if environment.waf_requests_per_5_minutes is None:
            instead = "the stage and the usage plan limit the rate."
            why = f"{environment.name} has no WAF by setting; {instead}"
            acknowledge(self.api, why, "AwsSolutions-APIG3")

    def _execution_logs(self, stack: Stack) -> None:
        name = f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{self._environment.stage}"
        group = log_group(self, "ExecutionLogs", stack, name)
        self.api.deployment_stage.node.add_dependency(group)

    def _callers(self, construct_id: str, purpose: str, *, loads: bool) -> iam.ManagedPolicy:
        arns = [
            self.api.arn_for_execute_api(
                route.method,
                re.sub(r"\{[^}]+\}", "*", gateway_path(route)),
                self._environment.stage,
            )
            for route in ROUTES
            if route.loads == loads
        ]
        calling = iam.PolicyStatement(actions=["execute-api:Invoke"], resources=arns)
        return policy_of(self, construct_id, f"{purpose} one environment", [calling], ONE_SEGMENT)

    def _add(self, route: Route) -> None:
        caller = templates.caller("none") if route.open else self._caller
        integrated = self._to_function if route.function else self._to_workflow
        method = self.api.root.resource_for_path(gateway_path(route)).add_method(
            route.method,
            integrated(route, caller),
            authorizer=None if route.open else self._authorizer,
            authorization_type=NO_CREDENTIAL if route.open else self._authorization,
            api_key_required=bool(self._environment.metering) and not route.open,
            method_responses=[_declared(code, self._cors) for code in STATUSES],
        )
        if route.open:
            acknowledge(method, OPEN, "AwsSolutions-APIG4")

    def _to_workflow(self, route: Route, caller: str) -> apigateway.Integration:
        return apigateway.AwsIntegration(
            service="states",
            action="StartSyncExecution",
            integration_http_method="POST",
            options=apigateway.IntegrationOptions(
                credentials_role=self._starter,
                **_asking(
                    route,
                    templates.request_workflow(
                        route.name, self._workflow.alias_arn, caller, route.parameters
                    ),
                ),
                integration_responses=[
                    _mapped("200", None, templates.response("workflow", route.name), self._cors),
                    # For AWS services the pattern matches the HTTP status.
                    _mapped(
                        "500", r"[45]\d{2}", templates.response("refused", route.name), self._cors
                    ),
                ],
            ),
        )

    def _to_function(self, route: Route, caller: str) -> apigateway.Integration:
        if route.name == "stream":  # templates cannot stream replies, so it parses the request
            return apigateway.LambdaIntegration(
                self._functions[route.function].live,
                allow_test_invoke=False,
                timeout=TIMEOUT,
                response_transfer_mode=apigateway.ResponseTransferMode.STREAM,
            )
        return apigateway.LambdaIntegration(
            self._functions[route.function].live,
            proxy=False,
            allow_test_invoke=False,  # else each method has two permissions, of 500 resources
            **_asking(
                route,
                templates.request_function(route.name, caller, route.parameters, route.body_bytes),
            ),
            integration_responses=[
                _mapped("200", None, templates.response("function"), self._cors),
                # For functions the pattern matches the error message.
                _mapped("500", r"(\n|.)+", templates.response("function"), self._cors),
            ],
        )

    def _contract(self) -> None:
        document = json.loads(OPENAPI.read_text(encoding="utf-8"))
        document.pop("servers", None)
        keys = dict(self._environment.receipt_keys)
        if not keys:
            document["paths"].pop(KEYS)
        for path, content in {CONTRACT: document, **({KEYS: keys} if keys else {})}.items():
            self._publish(path, templates.static_json(content))

    def _publish(self, path: str, template: str) -> None:
        resource = self.api.root.resource_for_path(path)
        self._mock(resource, "GET", 200, template, self._cors)
        self._answer_nothing(resource, 405, "method_not_allowed", "GET")

    @property
    def _url(self) -> str:
        # Not `api.url`, which depends on the deployment and so on every method.
        environment, host = self._environment, f"{self.api.rest_api_id}.execute-api"
        if environment.domain_name:
            return f"https://{environment.domain_name}"
        return f"https://{host}.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}/{environment.stage}"

    def _protected(self, tokens: Tokens) -> None:
        document = {
            "resource": "%%URL%%",
            "authorization_servers": [tokens.issuer],
            "bearer_methods_supported": ["header"],
        }
        self._publish(PROTECTED, templates.static_json(document).replace("%%URL%%", self._url))

    def _unrouted(self) -> None:
        by_path: dict[str, list[Route]] = {}
        for route in ROUTES:
            by_path.setdefault(gateway_path(route), []).append(route)
        for path, routes in by_path.items():
            allow = ", ".join(sorted(route.method for route in routes))
            chat = routes[0].name in CHAT_ROUTES
            resource = self.api.root.resource_for_path(path)
            self._answer_nothing(resource, 405, "method_not_allowed", allow, chat=chat)
        for path, chat in (("/", False), ("/{unknown+}", False), ("/v1/{unknown+}", True)):
            resource = self.api.root.resource_for_path(path)
            self._answer_nothing(resource, 404, "not_found", "", chat=chat)

    def _page(self, function: Function) -> None:
        # Files need no templates: event and reply pass unchanged.
        alias = function.live.function_arn
        files = apigateway.AwsIntegration(
            service="lambda", path=f"2015-03-31/functions/{alias}/invocations", proxy=True
        )
        # One permission for all paths: a permission per path exceeds 500 resources.
        function.live.add_permission(
            "Files",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=self.api.arn_for_execute_api("GET", "/*"),
        )
        for path in PATHS:
            resource = self.api.root.resource_for_path(path)
            method = resource.add_method("GET", files, authorization_type=NO_CREDENTIAL)
            acknowledge(method, OPEN_PAGE, "AwsSolutions-APIG4")
            if path != "/":
                self._answer_nothing(resource, 405, "method_not_allowed", "GET")

    def _answer_nothing(
        self,
        resource: apigateway.IResource,
        status: int,
        code: str,
        allow: str,
        *,
        chat: bool = False,
    ) -> None:
        detail = f"Allowed here: {allow}." if allow else "There is nothing at this path."
        headers = {"Allow": f"'{allow}'"} if allow else {}
        template = templates.response_unrouted(status, code, detail, chat=chat)
        self._mock(resource, "ANY", status, template, headers)

    def _mock(
        self,
        resource: apigateway.IResource,
        verb: str,
        status: int,
        template: str,
        headers: dict[str, str],
    ) -> None:
        method = resource.add_method(
            verb,
            apigateway.MockIntegration(
                # Otherwise another content type would break the mock (5xx).
                passthrough_behavior=apigateway.PassthroughBehavior.NEVER,
                request_templates={"application/json": f'{{"statusCode": {status}}}'},
                integration_responses=[_mapped(str(status), None, template, headers)],
            ),
            authorization_type=NO_CREDENTIAL,
            method_responses=[_declared(str(status), headers)],
        )
        acknowledge(method, OPEN, "AwsSolutions-APIG4")

    def _problems(self) -> None:
        rows = dict(PROBLEMS)
        if self._authorizer is not None:
            rows["ACCESS_DENIED"] = rows["UNAUTHORIZED"]
        for kind, (status, code, detail) in rows.items():
            headers = {"Content-Type": "'application/problem+json'"} | self._cors
            if status == HTTPStatus.UNAUTHORIZED and self._authorizer is not None:
                challenge = f'Bearer resource_metadata="{self._url}{PROTECTED}"'
                headers["WWW-Authenticate"] = f"'{challenge}'"
            if retry := RETRY_AFTER.get(kind):
                headers["Retry-After"] = f"'{retry}'"
            self.api.add_gateway_response(
                f"Problem{kind.title().replace('_', '')}",
                type=apigateway.ResponseType.of(kind),
                status_code=str(status),
                response_headers=headers,
                templates={"application/json": templates.gateway_problem(status, code, detail)},
            )

    def _meter(self) -> None:
        for caller, metering in self._environment.metering.items():
            name = caller.title().replace("-", "")
            plan = self.api.add_usage_plan(
                f"{name}Plan",
                name=f"docstokg-{self._environment.name}-{caller}",
                throttle={"rate_limit": metering.rate, "burst_limit": metering.burst},
                quota={"limit": metering.daily_quota, "period": apigateway.Period.DAY},
            )
            plan.add_api_stage(stage=self.api.deployment_stage)
            about = f"Meters {caller}; it does not authenticate"
            plan.add_api_key(self.api.add_api_key(f"{name}Key", description=about))

    def _domain(self) -> None:
        name = apigateway.DomainName(
            self,
            "Name",
            domain_name=self._environment.domain_name,
            certificate=cdk.aws_certificatemanager.Certificate.from_certificate_arn(
                self, "Certificate", self._environment.certificate_arn
            ),
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
            endpoint_type=apigateway.EndpointType.REGIONAL,
        )
        name.add_base_path_mapping(self.api, stage=self.api.deployment_stage)
        cdk.CfnOutput(self, "DomainTarget", value=name.domain_name_alias_domain_name)


def _open_limits(page: bool) -> dict[str, apigateway.MethodDeploymentOptions]:
    limits = {"/v1/health": 5} | (dict.fromkeys(PATHS, 20) if page else {})
    return {
        f"{path}/GET": apigateway.MethodDeploymentOptions(
            throttling_rate_limit=limit, throttling_burst_limit=limit
        )
        for path, limit in limits.items()
    }


def _mapped(
    status: str, pattern: str | None, template: str, headers: dict[str, str]
) -> apigateway.IntegrationResponse:
    return apigateway.IntegrationResponse(
        status_code=status,
        selection_pattern=pattern,
        response_templates={"application/json": template},
        response_parameters={HEADER + name: value for name, value in headers.items()} or None,
    )


def _declared(status: str, headers: Iterable[str]) -> apigateway.MethodResponse:
    parameters = {HEADER + name: True for name in headers}
    return apigateway.MethodResponse(status_code=status, response_parameters=parameters or None)


def _asking(route: Route, template: str) -> dict[str, Any]:
    passing = apigateway.PassthroughBehavior
    return {
        "passthrough_behavior": passing.WHEN_NO_TEMPLATES
        if route.method == "GET"
        else passing.NEVER,
        "timeout": TIMEOUT,
        "request_templates": {"application/json": template},
    }


def _preflight(origin: str) -> apigateway.CorsOptions | None:
    if not origin:
        return None
    return apigateway.CorsOptions(
        allow_origins=[origin],
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-Api-Key"],
        expose_headers=["Retry-After", "WWW-Authenticate"],
        max_age=cdk.Duration.minutes(10),
    )


def _access_log_format() -> apigateway.AccessLogFormat:
    fields = {
        "request_id": "$context.requestId",
        "time": "$context.requestTimeEpoch",
        "method": "$context.httpMethod",
        "route": "$context.resourcePath",
        "status": "$context.status",
        "latency_ms": "$context.responseLatency",
        "integration_ms": "$context.integrationLatency",
        "bytes": "$context.responseLength",
        "api_key_id": "$context.identity.apiKeyId",
        "error_type": "$context.error.responseType",
        "waf": "$context.wafResponseCode",
        "trace": "$context.xrayTraceId",
    }
    return apigateway.AccessLogFormat.custom(json.dumps(fields, separators=(",", ":")))
