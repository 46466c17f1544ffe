"""Lambda snapshot hooks."""

from collections.abc import Callable


def around_snapshot(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Register `before` for the snapshot and `after` for restored copies; no-op outside Lambda."""
    try:
        import snapshot_restore_py  # type: ignore[import-untyped] # it ships no types
    except ImportError:
        return  # included in Lambda's runtime only
    snapshot_restore_py.register_before_snapshot(before)
    snapshot_restore_py.register_after_restore(after)
