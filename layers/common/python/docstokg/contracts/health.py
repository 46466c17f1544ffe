"""`GET /v1/health`: the state of the service and of each dependency."""

from typing import Literal

from docstokg.contracts.model import Contract


class DependencyHealth(Contract):
    """One dependency's state and how long it took to say so, in milliseconds."""

    state: Literal["up", "down", "open", "off"]
    """`open`: failed often and is left alone for a while; `off`: not configured"""
    ms: float | None = None
    """milliseconds until it answered; null: it was not asked, or did not answer"""


class Health(Contract):
    """`GET /v1/health`."""

    status: Literal["ok", "degraded", "down"]
    """`degraded`: answers come, with a part missing"""
    version: str
    """of the service"""
    dependencies: dict[str, DependencyHealth]
    """each dependency by name"""
