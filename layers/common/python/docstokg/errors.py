"""Every error the product raises on purpose; retryable is a class, so that it can be named.

DocsToKGError
├── Retryable                 trying again later may work
│   ├── Unavailable           a dependency refused, broke off or is not there
│   │   ├── CircuitOpen       it failed repeatedly, so it was not even called
│   │   ├── NotConfigured     no key, role or address is set for it
│   │   ├── NotLoaded         the store answers, and nothing was ever loaded into it
│   │   └── NotInstalled      the package that speaks to it is not installed
│   ├── Locked                another load has what this one needs
│   ├── Timeout               it did not answer in the time it was given
│   └── QuotaExceeded         it refused because of too many calls
└── Permanent                 trying again will not help
    ├── Misconfigured         a setting is wrong; the message says which
    │   └── Refused           a dependency did not take our credential, which may be an old one
    ├── WrongAnswer           a dependency answered something that breaks its own contract
    ├── PlanRejected          the plan guard refused a query
    ├── InvalidCursor         a cursor of another request, or a forged one
    ├── NothingToCite         nothing could be hydrated: 503
    └── LoadError             a file could not be read as what its name says
"""


class DocsToKGError(Exception):
    """Root of the tree; `str()` is one sentence that says what to do next where that helps."""


class Retryable(DocsToKGError):
    """Trying again later may work."""


class Unavailable(Retryable):
    """A dependency refused, broke off or is not there."""


class CircuitOpen(Unavailable):
    """The dependency failed repeatedly, so it was not called."""


class NotConfigured(Unavailable):
    """No key, role or address is set for the dependency."""


class NotLoaded(Unavailable):
    """The store is in reach, and nothing was ever loaded into it."""


class NotInstalled(Unavailable):
    """The package that speaks to the dependency is not installed; the message names the extra."""


class Locked(Retryable):
    """Another load is under way; this one may go on when that has ended."""


class Timeout(Retryable):
    """The dependency did not answer in the time it was given."""


class QuotaExceeded(Retryable):
    """The dependency refused because of too many calls."""


class Permanent(DocsToKGError):
    """Trying again will not help."""


class Misconfigured(Permanent):
    """A setting is wrong."""


class Refused(Misconfigured):
    """A dependency did not take our credential, which may have been rotated since it was read."""


class WrongAnswer(Permanent):
    """A dependency answered something that breaks its own contract."""


class PlanRejected(Permanent):
    """The plan guard refused a query."""


class InvalidCursor(Permanent):
    """The cursor belongs to another request."""


class NothingToCite(Permanent):
    """No chunk could be hydrated."""


class LoadError(Permanent):
    """A file could not be read as what its name says."""


def cause(error: DocsToKGError) -> dict[str, str]:
    """Give the fields of a log line that say why something failed.

    The message is the adapter's own; of the vendor's error behind it only the kind is told,
    because a vendor may quote the question.
    """
    fields = {"kind": type(error).__name__, "error": str(error)}
    if error.__cause__ is not None:
        fields["cause"] = type(error.__cause__).__name__
    return fields
