"""AWS signatures (SigV4)."""

import hashlib

from docstokg.errors import Misconfigured, NotInstalled


class Signer:
    """Signs requests to a service in the `region` of the process."""

    def __init__(self, service: str) -> None:
        """Raise `NotInstalled` without boto3, `Misconfigured` without credentials or region."""
        try:
            import boto3  # only signed deployments have it
            from botocore.auth import SigV4Auth
            from botocore.awsrequest import AWSRequest
        except ImportError as missing:
            raise NotInstalled("the package boto3 is not installed (docstokg[llm])") from missing
        session = boto3.Session()
        credentials, region = session.get_credentials(), session.region_name
        if credentials is None or region is None:
            raise Misconfigured("SigV4 needs AWS credentials and AWS_DEFAULT_REGION")
        self.region, self._request = region, AWSRequest
        self._auth = SigV4Auth(credentials, service, region)

    def __call__(self, method: str, url: str, content: bytes, headers: dict[str, str]) -> None:
        """Add the signature of a request to its headers."""
        headers["X-Amz-Content-SHA256"] = hashlib.sha256(content).hexdigest()
        request = self._request(method, url, data=content, headers=headers)
        self._auth.add_auth(request)
        headers.update(request.headers)
