"""Contract of `GET /v1/health`."""

from typing import Literal

from docstokg.contracts.model import Contract


class DependencyHealth(Contract):
    """State of a dependency."""

    state: Literal["up", "down", "open", "off"]
    """`open`: circuit breaker open after repeated failures; `off`: not configured"""
    ms: float | None = None
    """response time in milliseconds; null: not called or no response"""


class Health(Contract):
    """Response of `GET /v1/health`."""

    status: Literal["ok", "degraded", "down"]
    """`degraded`: the service responds, but a dependency is missing"""
    version: str
    """version of the service"""
    dependencies: dict[str, DependencyHealth]
    """dependencies by name"""
