"""Web page in AWS."""

import json
import re
from dataclasses import asdict

from docstokg_functions.page.page import FILES, SIGN_IN, VIEWER
from infra.base import Stack
from infra.functions import Function
from infra.specs import PAGE

# All its paths in the gateway; other paths are the gateway's 404.
PATHS = (*FILES, *VIEWER, SIGN_IN)


def page_function(stack: Stack) -> Function:
    """Create the function: outside the VPC, without secrets and rights.

    Raises ValueError if an issuer's address does not fit the page's content security policy.
    """
    environment = stack.target
    sign_in = environment.sign_in
    if sign_in and not re.fullmatch(r"https://[\w.:-]+/[\w./~%-]*", sign_in.token_url):
        raise ValueError(f"{environment.name}: sign_in.token_url must be https, without a query")
    if sign_in and not re.fullmatch(r"https://[^\s#]+", sign_in.authorize_url):
        raise ValueError(f"{environment.name}: sign_in.authorize_url must be https")
    variables = {"SIGN_IN": json.dumps(asdict(sign_in))} if sign_in else {}
    return Function(stack, stack, PAGE, variables)
