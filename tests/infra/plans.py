"""API Gateway's answer before a route's integration: authoriser, its cache, API key, plan.

By the guide's pages "Use API Gateway Lambda authorizers" and "Choose an API key source": a missing
identity source is UNAUTHORIZED without a call, a denial ACCESS_DENIED, and a route that requires a
key compares the one of the source (`X-Api-Key`, or the authoriser's `usageIdentifierKey`) with the
keys of the stage's plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.infra.conftest import Template

HEADER = "method.request.header."
METHOD = "arn:aws:execute-api:eu-central-1:111122223333:abc/live/POST/v1/answer"


class Plans:
    """The gateway of a template whose usage plans have `values` as keys, by logical id."""

    def __init__(
        self, template: Template, values: Mapping[str, str], authorize: Callable[[Any], Any]
    ) -> None:
        self._authorize, self._policies = authorize, dict[tuple[str, ...], Any]()
        self._source = template.only("AWS::ApiGateway::RestApi").get("ApiKeySourceType", "HEADER")
        authorizer = template.only("AWS::ApiGateway::Authorizer")
        self._identity = authorizer["IdentitySource"].split(",")
        assert authorizer["AuthorizerResultTtlInSeconds"] > 0
        keys = template.all("AWS::ApiGateway::UsagePlanKey").values()
        self._keys = {values[key["KeyId"]["Ref"]] for key in keys}
        self._statuses = {
            response["ResponseType"]: int(response["StatusCode"])
            for response in template.all("AWS::ApiGateway::GatewayResponse").values()
        }

    def status(self, route: Mapping[str, Any], headers: Mapping[str, str]) -> int:
        """Return the status of a request to a method; 200 when it reaches the integration."""
        return self._statuses.get(self._refusal(route, headers), 200)

    def _refusal(self, route: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        lowered = {name.lower(): text for name, text in headers.items()}
        policy: dict[str, Any] = {}
        if route["AuthorizationType"] == "CUSTOM":
            names = [source.strip().removeprefix(HEADER).lower() for source in self._identity]
            identity = tuple(lowered.get(name, "") for name in names)
            if not all(identity):
                return "UNAUTHORIZED"
            if identity not in self._policies:
                event = {"methodArn": METHOD, "headers": dict(headers)}
                self._policies[identity] = self._authorize(event)
            policy = self._policies[identity]
            (statement,) = policy["policyDocument"]["Statement"]
            if statement["Effect"] != "Allow":
                return "ACCESS_DENIED"
        by_header = self._source == "HEADER"
        key = lowered.get("x-api-key") if by_header else policy.get("usageIdentifierKey")
        return "INVALID_API_KEY" if route.get("ApiKeyRequired") and key not in self._keys else ""
