"""onnxruntime sessions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstokg.errors import Misconfigured, Unavailable

FOLDER = "session.model_external_initializers_file_folder_path"


def _vendor_errors() -> tuple[type[Exception], ...]:
    """Return onnxruntime's errors, RuntimeError and ValueError for an `except`; imports it."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    classes = tuple(
        thing
        for thing in vars(state).values()
        if isinstance(thing, type) and issubclass(thing, Exception)
    )
    return (*classes, RuntimeError, ValueError)


def run_session(
    session: Any, outputs: list[str] | None, feed: Mapping[str, Any], model: str
) -> Any:
    """Return the named outputs (None: all) for inputs by name.

    `model`: name in the message of `Unavailable`, which is raised if the model fails.
    """
    try:
        return session.run(outputs, feed)
    except _vendor_errors() as broken:
        raise Unavailable(f"{model} failed: {broken}") from broken


def open_session(model: Path, threads: int, remedy: str, weights: Path | None = None) -> Any:
    """Open a model; raise `Misconfigured`, with the remedy, if invalid or without onnxruntime.

    `weights`: folder of the file with the model's constants.
    """
    try:
        import onnxruntime
    except ImportError as missing:
        raise Misconfigured(f"onnxruntime is not installed: {remedy}") from missing
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Idle worker threads must sleep: spinning would starve the other channels' threads.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if weights is not None:
        options.add_session_config_entry(FOLDER, str(weights))
    source = str(model) if weights is None else model.read_bytes()
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except _vendor_errors() as broken:
        raise Misconfigured(f"{model} is not a readable model: {remedy}") from broken
