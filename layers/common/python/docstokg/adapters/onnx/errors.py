"""What onnxruntime raises; its errors have no common class of their own."""


def vendor_errors() -> tuple[type[Exception], ...]:
    """List them for an `except`, once onnxruntime is imported."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = tuple(
        thing
        for thing in vars(state).values()
        if isinstance(thing, type) and issubclass(thing, Exception)
    )
    return (*own, RuntimeError, ValueError)
