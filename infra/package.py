"""Build of function zips, without Docker.

CDK deploys `build/aarch64`; tests run `build/host`.
"""

import argparse
import compileall
import fcntl
import hashlib
import os
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import unpack_from as unpack
from typing import Literal, NamedTuple

from infra.specs import IMPORT_NAME, PACKAGED, PYTHON, ROOT, FunctionSpec

type Target = Literal["aarch64", "host"]

BUILD = ROOT / "build"
OWN = ROOT / "layers" / "common" / "python" / "docstokg"
SHARED = BUILD / "shared"
# Block size of most file systems, in bytes.
BLOCK = 4096
TARGETS: tuple[Target, ...] = ("aarch64", "host")
# Amazon Linux 2023, the base of the Python 3.12+ runtimes, has glibc 2.34.
PLATFORM = "aarch64-manylinux_2_28"
# Provided by the runtime.
FROM_RUNTIME = ("boto3", "botocore", "s3transfer", "jmespath")
RUNTIME = (
    *FROM_RUNTIME,
    "awslambdaric",
    "python-dateutil",
    "simplejson",
    "six",
    "snapshot-restore-py",
    "urllib3",
)
# Unused paths; tests/infra/test_bundles.py imports and runs the rest.
PRUNE = (
    "bin",
    "**/tests",
    "**/test",
    "**/__pycache__",
    "**/*.pyi",
    "**/*.md",
    "**/*.c",
    "**/*.h",
    "**/*.pyx",
    "**/*.pxd",
    "grpc",
    "hf_xet",
    "litellm/proxy/_experimental/out",
    "litellm/proxy/swagger",
    "numpy/_pyinstaller",
    "numpy/f2py",
    "onnxruntime/backend",
    "onnxruntime/datasets",
    "onnxruntime/quantization",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    # spaCy's build dependencies, which would run at start.
    "setuptools",
    "setuptools-*.dist-info",
    "_distutils_hack",
    "*.pth",
    "pkg_resources",
)
NO_BYTECODE = shutil.ignore_patterns("__pycache__", "*.pyc")
# Part of the stamp: increase it when the recipe changes.
RECIPE = "3"


def size_mb(folder: Path) -> float:
    """Return the sum of file sizes below `folder`, in MB of 10^6 bytes."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6


class Step(NamedTuple):
    """A folder of a bundle, filled by `make`, with a digest of its sources."""

    name: str
    folder: Path
    stamp: Path
    digest: str
    make: Callable[[], object]

    def is_fresh(self) -> bool:
        """Return whether the folder was made from the present sources."""
        stamped = self.folder.is_dir() and self.stamp.is_file()
        return stamped and self.stamp.read_text(encoding="utf-8") == self.digest

    def run(self) -> None:
        """Make the folder unless it is fresh."""
        if not self.is_fresh():
            self.stamp.unlink(missing_ok=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.make()
            self.stamp.write_text(self.digest, encoding="utf-8")


def build(target: Target) -> None:
    """Build missing or stale parts of `target`.

    Raise SystemExit under another Python than Lambda's, or if own code does not compile.
    """
    if "{}.{}".format(*sys.version_info) != PYTHON:
        raise SystemExit(f"bundles are compiled with Python {PYTHON}, as Lambda runs them")
    (BUILD / target).mkdir(parents=True, exist_ok=True)
    # Concurrent builds would remove each other's files.
    with (BUILD / "building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in _steps(target):
            step.run()
        # Files that no bundle uses any more.
        for shared_file in SHARED.glob("*"):
            if shared_file.stat().st_nlink == 1:
                shared_file.unlink()


def unbuilt(target: Target) -> list[str]:
    """Return the names of the missing or stale parts of `target`, in order of build, each once."""
    stale = (step.name for step in _steps(target) if not step.is_fresh())
    return list(dict.fromkeys(stale))


def _steps(target: Target) -> Iterator[Step]:
    folder = BUILD / target
    layer = folder / "layer"
    yield Step("layer", layer, layer.with_suffix(".stamp"), _digest(OWN), partial(_layer, layer))
    if target == "host":
        lock = _excerpt(ROOT / "requirements.lock", RUNTIME)
        yield _vendored(folder / "runtime", lock, target, ())
    for spec in PACKAGED:
        bundle, digest = folder / spec.name, _digest(*_own_sources(spec))
        yield _vendored(bundle, _lock(spec.packages), target, spec.keeps)
        copy, stamp = partial(_own_code, bundle, spec), bundle.with_suffix(".own.stamp")
        yield Step(spec.name, bundle / IMPORT_NAME, stamp, digest, copy)


def _lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")


def _vendored(folder: Path, lock: str, target: Target, keeps: tuple[str, ...]) -> Step:
    recipe = "\n".join((RECIPE, lock, *PRUNE, *FROM_RUNTIME, PLATFORM, PYTHON, *keeps))
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    install = partial(_install, folder, lock, target, keeps)
    return Step(folder.name, folder, folder.with_suffix(".stamp"), digest, install)


def _install(folder: Path, lock: str, target: Target, keeps: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    pins = folder.with_suffix(".lock")
    pins.write_text(lock, encoding="utf-8")
    finding = [str(ROOT / "scripts" / "find-uv")]
    uv = subprocess.check_output(finding, text=True).strip()  # noqa: S603 - our own script
    command = [uv, "pip", "install", "--quiet", "--no-config", "--target", str(folder)]
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--link-mode", "copy", "-r", str(pins)]
    if target == "aarch64":
        command += ["--python-version", PYTHON, "--python-platform", PLATFORM]
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603 - our own arguments
    is_runtime = folder.name == "runtime"
    _prune(folder, PRUNE if is_runtime else PRUNE + tuple(f"{n}*" for n in FROM_RUNTIME))
    if keeps:
        _keep_only(folder, keeps)
    _strip(folder)
    _compile(folder)
    _share(folder)


def _share(folder: Path) -> None:
    SHARED.mkdir(exist_ok=True)
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size <= BLOCK:
            continue
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        # Hard links share the mode, so executables are separate.
        shared_file = SHARED / f"{digest}-{path.stat().st_mode & 0o777:o}"
        if not shared_file.exists():
            shared_file.hardlink_to(path)
        elif not shared_file.samefile(path):
            path.unlink()
            path.hardlink_to(shared_file)


def _keep_only(folder: Path, patterns: tuple[str, ...]) -> None:
    served = {path for pattern in patterns for path in folder.glob(pattern)}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in served:
            path.unlink()


def _prune(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in list(folder.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()


def _strip(folder: Path) -> None:
    """Remove all bytes after the last segment of shared libraries (ELF-64, `elf(5)`)."""
    for path in folder.rglob("*.so*"):
        library = b"" if path.is_symlink() or path.is_dir() else path.read_bytes()
        if library[:6] != b"\x7fELF\x02\x01":
            continue
        (first,), (entry, count) = unpack("<Q", library, 32), unpack("<HH", library, 54)
        headers = range(first, first + entry * count, entry)
        parts = [unpack("<Q", library, at + 8) + unpack("<Q", library, at + 32) for at in headers]
        end = max(headers.stop, *(offset + size for offset, size in parts))
        # Clear the section table's offset, entry size, count and name index.
        header = library[:40] + bytes(8) + library[48:58] + bytes(6)
        path.write_bytes(header + library[64:end])


def _layer(folder: Path) -> None:
    shutil.copytree(OWN, folder / "python" / "docstokg", ignore=NO_BYTECODE)
    _compile(folder)


def _own_code(bundle: Path, spec: FunctionSpec) -> None:
    source, *around = _own_sources(spec)
    mine = bundle / IMPORT_NAME
    shutil.copytree(source, bundle / spec.package, ignore=NO_BYTECODE)
    for module in around:
        shutil.copy2(module, mine / module.relative_to(ROOT / "functions"))
    _compile(mine, below=bundle)


def _own_sources(spec: FunctionSpec) -> tuple[Path, ...]:
    packages = [folder for folder in spec.folder.parents if folder != Path()]
    modules = [path for folder in packages for path in sorted((ROOT / folder).glob("*.py"))]
    return ROOT / spec.folder, *modules


def _digest(*sources: Path) -> str:
    digest = hashlib.sha256(f"{RECIPE}\n{PYTHON}\n".encode())
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in files:
            if path.is_file() and path.suffix != ".pyc":
                content = path.read_bytes()
                digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _compile(folder: Path, below: Path | None = None) -> None:
    root = below or folder
    mount = "/opt" if root.name == "layer" else "/var/task"
    done = compileall.compile_dir(
        str(folder),
        quiet=2,
        workers=2,
        stripdir=str(root),
        prependdir=mount,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    # Some vendors ship templates named *.py; ours must all compile.
    if not done and (below is not None or root.name == "layer"):
        raise SystemExit(f"{folder} does not compile")


def _excerpt(lock: Path, names: tuple[str, ...]) -> str:
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"))
    pins = [entry for entry in entries if entry.partition("==")[0].strip() in names]
    return "\n".join(pins) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """`python -m infra.package [aarch64|host ...]` (default: both): `build` and print a table.

    SystemExit for other targets.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    options = parser.parse_args(arguments)
    for target in options.targets or TARGETS:
        build(target)
        layer = size_mb(BUILD / target / "layer")
        sys.stdout.write(f"{target}: layer {layer:.1f} MB unzipped\n")
        for spec in PACKAGED:
            whole = size_mb(BUILD / target / spec.name) + layer
            sys.stdout.write(f"  {spec.name:<11} {whole:7.1f} MB with the layer\n")


if __name__ == "__main__":
    # Lower priority than a developer's own processes.
    os.nice(5)
    main()
