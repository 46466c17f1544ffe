"""AWS keys."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from docstokg.errors import NotConfigured, NotInstalled


class RoleKeys:
    """Credentials and region of this process's role."""

    @cached_property
    def _session(self) -> Any:
        try:
            from boto3.session import Session
        except ImportError as missing:
            raise NotInstalled("the package boto3 is not installed (docstokg[llm])") from missing
        return Session()

    def __call__(self) -> Mapping[str, str | None]:
        """Return the current keys.

        Raise `NotConfigured` without keys or region, `NotInstalled` without boto3.
        """
        credentials, region = self._session.get_credentials(), self._session.region_name
        if credentials is None:
            raise NotConfigured("there is no AWS role or key for Bedrock")
        if region is None:
            raise NotConfigured("no region is set for Bedrock (AWS_DEFAULT_REGION)")
        keys = credentials.get_frozen_credentials()
        return {
            "aws_access_key_id": keys.access_key,
            "aws_secret_access_key": keys.secret_key,
            "aws_session_token": keys.token,
            "aws_region_name": region,
        }
