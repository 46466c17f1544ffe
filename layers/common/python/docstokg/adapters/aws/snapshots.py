"""Lambda's hooks around a snapshot of a started process; elsewhere there is nothing to hook."""

from collections.abc import Callable


def around_snapshot(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Have `before` run when the snapshot is taken, and `after` in every copy made of it."""
    try:
        import snapshot_restore_py  # type: ignore[import-untyped] # it ships no types
    except ImportError:
        return  # only Lambda's runtime brings it
    snapshot_restore_py.register_before_snapshot(before)
    snapshot_restore_py.register_after_restore(after)
