"""Forms of the texts in an environment's settings."""

import difflib
import re
from collections.abc import Iterator
from typing import Any

from botocore.session import get_session

from docstokg.contracts.request import NAMESPACE_PATTERN

HOST = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
URL = rf"https://{HOST}(:\d+)?(/\S*)?"
MAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
# Path of a setting, `[]` for any key or position -> pattern of its value, and the allowed values.
FORMS: dict[str, tuple[str, str]] = {
    "name": (r"[a-z][a-z0-9-]{0,14}[a-z0-9]", "2 to 16 of a-z, 0-9 and -, a letter first"),
    "account": (r"\d{12}|", "twelve digits"),
    "stage": (r"[A-Za-z0-9_-]{1,128}", "1 to 128 of A-Z, a-z, 0-9, _ and -"),
    "graph_url": (rf"(neo4j|bolt)(\+s|\+ssc)?://{HOST}(:\d+)?", "neo4j+s://HOST or bolt+s://HOST"),
    "cors_origin": (rf"(https://{HOST}(:\d+)?)?", "https://HOST"),
    "domain_name": (rf"({HOST}\.[A-Za-z]{{2,}})?", "a host name, such as api.HOST"),
    "certificate_arn": (
        r"(arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[0-9a-f-]{36})?",
        "arn:aws:acm:REGION:ACCOUNT:certificate/ID",
    ),
    "alarm_email": (rf"({MAIL})?", "an address, NAME@HOST"),
    "notice_email": (rf"({MAIL})?", "an address, NAME@HOST"),
    "iam_namespaces[]": (rf"\*|{NAMESPACE_PATTERN}", '"*" or a namespace'),
    "iam_load[]": (rf"\*|{NAMESPACE_PATTERN}", '"*" or a namespace'),
    "tags[]": (r"[\w .:/=+@-]{0,256}", "up to 256 letters, digits and _.:/=+@-"),
    "index.endpoint": (rf"({URL})?", "https://HOST"),
    "index.arn": (
        r"(arn:aws[a-z-]*:es:[a-z0-9-]+:\d{12}:domain/[a-z][a-z0-9-]{2,27})?",
        "arn:aws:es:REGION:ACCOUNT:domain/NAME",
    ),
    "network.vpc_id": (r"vpc-([0-9a-f]{8}|[0-9a-f]{17})", "vpc- and 8 or 17 hex digits"),
    "network.zones[]": (r"[a-z]{2}(-[a-z]+)+-\d[a-z]", "a zone, such as eu-central-1a"),
    "network.private_subnets[]": (
        r"subnet-([0-9a-f]{8}|[0-9a-f]{17})",
        "subnet- and 8 or 17 hex digits",
    ),
    "network.s3_prefix_list": (r"pl-[0-9a-f]{8,17}", "pl- and 8 to 17 hex digits"),
    "tokens.issuer": (URL, "https://HOST/..."),
    "tokens.jwks_url": (URL, "https://HOST/..."),
    "tokens.audience": (r"\S.*", "a text"),
    "tokens.claims": (r"[^,\s]+(,[^,\s]+){3}", "four claims: audience, namespaces, groups, load"),
    "sign_in.authorize_url": (URL, "https://HOST/..."),
    "sign_in.token_url": (URL, "https://HOST/..."),
    "canary.question": (r"\s*\S.*", "a question"),
}
# Families of the service's guide that botocore does not list; their sizes are not checked.
NEWER = frozenset({"c7g", "m7g", "r7g", "r7gd", "i4g", "i4i", "or2", "om2", "oi2"})
NODE = re.compile(r"index\.(instance|manager)_type")


def misshapen(path: str, value: str) -> Iterator[str]:
    """Yield a sentence, with key and allowed values, if a setting's text has another form."""
    pattern, allowed = FORMS.get(re.sub(r"\[[^]]*\]", "[]", path), (".*", ""))
    if not re.fullmatch(pattern, value, re.DOTALL):
        yield f"{path} {value!r} should be {allowed}"
    if path == "region" and value not in (regions := _regions()):
        yield f"{path} {value!r} should be one of {', '.join(regions)}"
    if NODE.fullmatch(path) and value not in _nodes() and value.partition(".")[0] not in NEWER:
        families = sorted({node.partition(".")[0] for node in _nodes()} | NEWER)
        near = difflib.get_close_matches(value, _nodes(), 3, 0.0)
        yield (
            f"{path} {value!r} should be a node type of the service, such as {', '.join(near)}; "
            f"families {', '.join(families)}"
        )


def _regions() -> list[str]:
    session = get_session()
    partitions = session.get_available_partitions()
    return sorted(r for p in partitions for r in session.get_available_regions("opensearch", p))


def _nodes() -> list[str]:
    model = get_session().get_service_model("opensearch")
    shape: Any = model.shape_for("OpenSearchPartitionInstanceType")
    return list(shape.enum)
