"""A folder of 250 real files of nine formats, built from this machine's documentation, and asked.

`python -m benchmarks.formats build DIR` gathers and converts (npm, CMake, Rust, Node.js, git,
Python and manual pages must be installed; what is absent is left out and said).
`python -m benchmarks.formats ask --index URL --namespace NS` puts `formats_questions.jsonl`,
written from the files before the first run, and counts where the right document stands.
"""

import argparse
import importlib
import inspect
import io
import json
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import docx

from benchmarks.hostile_files import pdf
from docstokg.contracts.response import RAGResponse
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.stores import settings_of
from docstokg_local.cli.verify import check_response, stored_chunks
from docstokg_local.engine.workflow import LocalWorkflow

QUESTIONS = Path(__file__).with_name("formats_questions.jsonl")
NPM = Path("/usr/lib/node_modules/npm")
NODE = Path("/usr/share/doc/nodejs/contributing")
CMAKE = "/usr/share/cmake*/Help/command/*.rst"
RUST = ".rustup/toolchains/stable-*/share/doc/rust/html/book/ch*.html"
RELEASES = "/usr/share/doc/git/RelNotes/2.3?.0.txt"
MANUALS = (
    "tar gzip find xargs grep sed sort uniq cut wc du df chmod chown ls cp mv rm ln mkdir touch"
    " cat head tail tee diff patch ps kill make"
)
NOTEBOOKS = (
    "writing-tests writing-and-running-benchmarks static-analysis primordials using-symbols"
    " using-internal-errors technical-values releases security-release-process commit-queue"
    " code-of-conduct cpp-style-guide issues internal-api offboarding components-in-core"
)
MODULES = "shutil statistics textwrap json math random bisect heapq functools tempfile glob fnmatch"
PAGE_LINES = 60


def build(folder: Path) -> None:
    """Write the folder; print how many files of each type it has."""
    for name in ("md", "rst", "html", "txt", "latin1", "docx", "pdf", "ipynb", "csv", "json"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _copy(sorted((NPM / "docs/content/commands").glob("npm-*.md"))[:45], folder / "md")
    _copy((NPM / "docs/content/using-npm").glob("*.md"), folder / "md")
    rules = sorted(Path("/").glob(CMAKE.lstrip("/")), key=lambda p: p.name)
    _copy([p for p in rules if p.stat().st_size > 400][:45], folder / "rst")
    _copy(sorted(Path.home().glob(RUST))[:36], folder / "html")
    for name in MANUALS.split():
        shown = subprocess.run(
            ["man", "-P", "cat", name], capture_output=True, check=False,
            env={"MANWIDTH": "90", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )  # fmt: skip
        if shown.returncode == 0:
            text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", shown.stdout.decode("utf-8", "replace"))
            (folder / "txt" / f"{name}.txt").write_text(text, "utf-8")
    for first in range(0xA0, 0x100, 16):
        lines = [
            f"{chr(code)} is called {unicodedata.name(chr(code), 'no-break').lower()}; its code"
            f" is {code}."
            for code in range(first, first + 16)
        ]
        path = folder / "latin1" / f"letters-{first:x}.txt"
        path.write_bytes(("\n\n".join(lines) + "\n").encode("latin-1"))
    notebooks = set(NOTEBOOKS.split())
    for path in sorted((NPM / "node_modules/undici/docs/docs/api").glob("*.md"))[:22]:
        _write(folder / "docx" / f"{path.stem}.docx", _docx, path)
    for path in sorted(NODE.glob("*.md")):
        if path.stem in notebooks:
            _write(folder / "ipynb" / f"{path.stem}.ipynb", _notebook, path)
        else:
            _write(folder / "pdf" / f"{path.stem}.pdf", _pdf, path)
    for name in MODULES.split():
        (folder / "csv" / f"{name}.csv").write_text(_table(name), "utf-8")
    for path in sorted(Path("/").glob(RELEASES.lstrip("/"))):
        value = {"title": f"Git {path.stem}", "text": path.read_text("utf-8", "replace")}
        (folder / "json" / f"git-{path.stem}.json").write_text(json.dumps(value), "utf-8")
    for path in sorted((NPM / "node_modules").glob("*/package.json"))[:40]:
        shutil.copy(path, folder / "json" / f"package-{path.parent.name}.json")
    semver = NPM / "node_modules/semver/package.json"
    if semver.exists():
        shutil.copy(semver, folder / "json" / "package-semver.json")
    total = 0
    for kind in sorted(p for p in folder.iterdir() if p.is_dir()):
        count = sum(1 for _ in kind.iterdir())
        total += count
        print(f"{kind.name}: {count}")
    print(f"total: {total}")


def _copy(paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        shutil.copy(path, folder / path.name)


def _write(target: Path, make: Callable[[str], bytes], source: Path) -> None:
    target.write_bytes(make(source.read_text("utf-8")))


def _docx(markdown: str) -> bytes:
    document = docx.Document()
    for line in markdown.splitlines():
        heading = re.match(r"(#{1,6}) (.*)", line)
        if heading:
            document.add_heading(heading[2].replace("`", ""), min(len(heading[1]), 6))
        elif line.startswith(("* ", "- ")):
            document.add_paragraph(line[2:], style="List Bullet")
        elif line.strip():
            document.add_paragraph(line)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _notebook(markdown: str) -> bytes:
    cells: list[dict[str, object]] = []
    for number, part in enumerate(re.split(r"^```\w*\n(.*?)^```\n", markdown, flags=re.M | re.S)):
        kind = "code" if number % 2 else "markdown"
        if part.strip():
            cells.append({"cell_type": kind, "source": part.splitlines(keepends=True)})
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def _pdf(text: str) -> bytes:
    lines = [piece for line in text.splitlines() for piece in re.findall(r".{1,100}", line) or [""]]
    pages = [lines[i : i + PAGE_LINES] for i in range(0, len(lines), PAGE_LINES)]
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Courier >> >> >>"
    kids = []
    for page in pages:
        shown = b"".join(
            b"(%s) Tj T*\n" % re.sub(rb"([\\()])", rb"\\\1", line.encode("latin-1", "replace"))
            for line in page
        )
        stream = b"BT /F1 9 Tf 11 TL 40 750 Td\n" + shown + b"ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources %s >>" % (len(objects), font)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return pdf(objects, b"<< /Size %d /Root 1 0 R >>" % (len(objects) + 1))


def _table(module: str) -> str:
    rows = ["function,summary"]
    found = importlib.import_module(module)
    for name, function in sorted(vars(found).items()):
        if callable(function) and not name.startswith("_") and (said := inspect.getdoc(function)):
            summary = said.split("\n\n")[0].replace('"', "'").replace("\n", " ")
            rows.append(f'{module}.{name},"{summary}"')
    return "\n".join(rows) + "\n"


def ask_all(index: str, namespace: str) -> None:
    """Print each question with the rank of its document, and how many stand in the first three."""
    wiring = Wiring(settings_of(index, index), Telemetry(level="ERROR"))
    flow = LocalWorkflow(wiring)
    good = proven = findings = 0
    questions = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    for question in questions:
        body = ask(flow, {"query": question["question"], "namespace": namespace,
                          "budget": {"timeout_s": 30}}).body  # fmt: skip
        documents = list(dict.fromkeys(c["doc_id"] for c in body["citations"]))
        gold = question["gold"][0]
        rank = documents.index(gold) + 1 if gold in documents else 0
        good += 1 <= rank <= 3
        response = flow_response(body)
        wrong, right = check_response(
            response, partial(stored_chunks, wiring.search_index(), wiring.register(), [namespace])
        )
        findings, proven = findings + len(wrong), proven + right
        print(f"{rank or '-':>3}  {gold:<48} {question['question']}")
    print(
        f"{good} of {len(questions)} in the first three; {proven} citations proven, {findings} not"
    )
    wiring.close()


def flow_response(body: dict[str, object]) -> RAGResponse:
    """Read a body as the contract."""
    return RAGResponse.model_validate_json(json.dumps(body))


def main() -> None:
    """Build, or ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("folder", type=Path)
    asking = commands.add_parser("ask")
    asking.add_argument("--index", required=True)
    asking.add_argument("--namespace", default="default")
    chosen = parser.parse_args()
    if chosen.command == "build":
        build(chosen.folder)
    else:
        ask_all(chosen.index, chosen.namespace)


if __name__ == "__main__":
    main()
