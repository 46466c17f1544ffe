"""The page and the interactive reference in AWS: one function that sends files, and its paths."""

import json
import re
from dataclasses import asdict

from docstokg_functions.page.page import FILES, SIGN_IN, VIEWER
from infra.base import Stack
from infra.functions import Function
from infra.specs import PAGE

PATHS = (*FILES, *VIEWER, SIGN_IN)
"""Every path it answers, as the gateway knows them; any other stays the gateway's own 404."""


def page_function(stack: Stack) -> Function:
    """Make the function: outside the VPC, with no secret and nothing it may reach.

    ValueError where callers sign with IAM, for a browser has no such credential, and where an
    address of the issuer is none that the page's policy can name.
    """
    environment = stack.target
    if environment.auth != "jwt":
        raise ValueError(f"{environment.name}: the page needs auth jwt, not {environment.auth}")
    sign_in = environment.sign_in
    if sign_in and not re.fullmatch(r"https://[\w.:-]+/[\w./~%-]*", sign_in.token_url):
        raise ValueError(f"{environment.name}: sign_in.token_url must be https, without a query")
    if sign_in and not re.fullmatch(r"https://[^\s#]+", sign_in.authorize_url):
        raise ValueError(f"{environment.name}: sign_in.authorize_url must be https")
    variables = {"SIGN_IN": json.dumps(asdict(sign_in))} if sign_in else {}
    return Function(stack, stack, PAGE, variables)
