"""What each extra of the wheel brings into an empty environment: packages and MB, as Markdown.

python -m benchmarks.extras [EXTRA...]     (all, unless some are named; with commas: together)

Versions are the tested ones (requirements.lock). MB are the bytes of all installed files, pip none.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALL = (
    "", "local", "documents", "names", "opensearch", "neo4j", "llm", "aws", "client",
    "local,documents,names",
)  # fmt: skip


def main(wanted: tuple[str, ...]) -> None:
    """Install each into an environment of its own, and print its row."""
    found = subprocess.run(
        [str(ROOT / "scripts" / "find-uv")], check=True, capture_output=True, text=True
    )
    uv = found.stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [uv, "build", "--wheel", "--quiet", "--out-dir", name, str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        print("| extra | MB | packages | torch | seconds, from a cache |\n|---|---|---|---|---|")
        for extra in wanted:
            started = time.monotonic()
            megabytes, names = installed(uv, folder / "env", wheel, extra)
            torch = "yes" if "torch" in names else "no"
            seconds = time.monotonic() - started
            print(
                f"| {f'`{extra}`' if extra else '(none)'} | {megabytes:.0f} | {len(names)} "
                f"| {torch} | {seconds:.0f} |",
                flush=True,
            )


def installed(uv: str, place: Path, wheel: Path, extra: str) -> tuple[float, list[str]]:
    """Give MB and package names of a fresh environment with the wheel and one choice of extras."""
    python = str(ROOT / ".venv" / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", python, str(place)], check=True)
    target = f"docstokg[{extra}] @ {wheel.as_uri()}"
    pinned = ["-c", str(ROOT / "requirements.lock")]
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(place), *pinned, target], check=True
    )
    listed = subprocess.run(
        [uv, "pip", "list", "--python", str(place), "--format", "freeze"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    size = sum(file.lstat().st_size for file in (place / "lib").rglob("*") if file.is_file())
    shutil.rmtree(place)
    return size / 1e6, [line.partition("==")[0] for line in listed.splitlines()]


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or ALL)
