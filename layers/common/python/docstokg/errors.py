"""Errors, retryable or permanent."""


class DocsToKGError(Exception):
    """Base class; `str()` is one sentence."""


class Retryable(DocsToKGError):
    """A later retry may succeed."""


class Unavailable(Retryable):
    """A dependency refused, broke off or is unreachable."""


class CircuitOpen(Unavailable):
    """The circuit breaker prevented the call."""


class NotConfigured(Unavailable):
    """No key, role or address is set for the dependency."""


class NotLoaded(Unavailable):
    """The store is reachable but empty."""


class NotInstalled(Unavailable):
    """The client package is not installed; the message contains the extra."""


class Locked(Retryable):
    """Another load holds the lease."""


class Timeout(Retryable):
    """The dependency exceeded its time."""


class QuotaExceeded(Retryable):
    """The dependency refused because of too many calls."""


class Permanent(DocsToKGError):
    """A retry cannot succeed."""


class Misconfigured(Permanent):
    """A setting is wrong."""


class Refused(Misconfigured):
    """A dependency refused the credential, which may have been rotated."""


class WrongAnswer(Permanent):
    """A dependency violated its own contract."""


class PlanRejected(Permanent):
    """The plan guard refused a query."""


class NothingToCite(Permanent):
    """No chunk could be hydrated."""


class LoadError(Permanent):
    """A file does not match the format of its name."""


def cause(error: DocsToKGError) -> dict[str, str]:
    """Return the log fields `kind`, `error` and, if chained, `cause`, a vendor's error type."""
    fields = {"kind": type(error).__name__, "error": str(error)}
    if error.__cause__ is not None:
        fields["cause"] = type(error.__cause__).__name__
    return fields
