"""The page and the interactive reference in AWS: one function that sends files, and its paths."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_kms as kms
from constructs import Construct

from functions.page.page import FILES, VIEWER
from infra.functions import Function
from infra.settings import Environment
from infra.specs import PAGE, ROOT

PATHS = (*FILES, *VIEWER)
"""Every path it answers, as the gateway knows them; any other stays the gateway's own 404."""


def page_function(
    scope: Construct, *, environment: Environment, bundles: Path | None, key: kms.IKey
) -> Function:
    """Make the function: outside the VPC, with no setting, no secret and nothing it may reach.

    ValueError where callers sign with IAM: a browser has no such credential to paste.
    """
    if environment.auth != "jwt":
        raise ValueError(f"{environment.name}: the page needs auth jwt, not {environment.auth}")
    return Function(
        scope,
        "Page",
        spec=PAGE,
        environment=environment,
        code=bundles / PAGE.name if bundles else ROOT / "functions" / PAGE.name,
        layer=None,
        key=key,
        variables={},
    )


def integration(function: Function) -> apigateway.LambdaIntegration:
    """Pass event and reply through as they are: a file is no template's business."""
    return apigateway.LambdaIntegration(function.live, proxy=True, allow_test_invoke=False)
