"""True and false statements about small passages through /v1/check: which pass as grounded.

    python -m benchmarks.statements [benchmarks/statements.jsonl] [--json FILE]
    python -m benchmarks.statements benchmarks/hand_claims.jsonl --split dev|kept

The second file has 200 false and 60 true claims about ten made-up pages, in forms that
training.false_claims does not make. The pages called `dev` were looked at when rules and features
were written, those called `kept` only when all was done. A file holds its own sources, entities and
relations; they are loaded into a store of their own.
A statement passes when the reply says `grounded`. Each is checked twice: without citations, where
the service looks for sources among all passages, and citing its own passage.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docstokg.domain.identity import chunk_uuid
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.check import handler

FILE = Path(__file__).with_name("statements.jsonl")
NAMESPACE = "statements"


def main() -> None:
    """Print, for both ways of asking, how many true and false statements pass, and by form."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", type=Path, nargs="?", default=FILE)
    arguments.add_argument("--json", type=Path, help="every statement with its verdicts")
    arguments.add_argument("--split", help="dev or kept: only the pages called so")
    options = arguments.parse_args()
    rows = [json.loads(line) for line in options.file.read_text("utf-8").splitlines() if line]
    rows = [row for row in rows if options.split in (None, row.get("split"))]
    with tempfile.TemporaryDirectory() as folder:
        checked = checked_rows(rows, Path(folder))
    print(json.dumps(summary(checked), indent=1))
    if options.json:
        options.json.write_text(json.dumps(checked, indent=1, ensure_ascii=False) + "\n", "utf-8")


def checked_rows(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Load the sources into a store in `folder` and check every statement, both ways."""
    url = f"sqlite:///{folder / 'store.sqlite'}"
    sources = [row for row in rows if row["row"] == "source"]
    files = folder / "files"
    files.mkdir()
    passages = [
        {"id": row["id"], "doc_id": row["id"], "title": row["title"], "text": row["text"]}
        for row in sources
    ]
    _write(files / "passages.jsonl", passages)
    for kind, name in (("entity", "entities"), ("relation", "relations")):
        own = [{k: v for k, v in row.items() if k != "row"} for row in rows if row["row"] == kind]
        if own:
            _write(files / f"{name}.jsonl", own)
    load = ["docstokg", "load", str(files), "--namespace", NAMESPACE, "--index", url]
    subprocess.run(
        [str(Path(sys.executable).with_name(load[0])), *load[1:], "--graph", url], check=True
    )
    wiring = Wiring(Settings(index_url=url, graph_url=url))
    check = handler.build(wiring)
    uuids = {row["id"]: chunk_uuid(NAMESPACE, row["id"]) for row in sources}
    return [
        {
            **row,
            "found": _reply(check, {"text": row["text"]}),
            "cited": _reply(check, _citing(row["text"], uuids[row["source"]])),
        }
        for row in rows
        if row["row"] == "statement"
    ]


def _citing(text: str, uuid: str) -> dict[str, Any]:
    """Put the marker [1] behind the text, into the rows of a table, or above a code fence."""
    if text.startswith("```"):
        marked = f"Settings [1]:\n\n{text}"
    elif text.startswith("|"):
        head, rule, *rows = text.split("\n")
        marked = "\n".join([head, rule, *(row.removesuffix(" |") + " [1] |" for row in rows)])
    else:
        marked = f"{text} [1]"
    return {"text": marked, "citations": [{"rank": 1, "uuid": uuid}]}


def _reply(check: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    body = json.dumps({**request, "namespace": NAMESPACE}).encode()
    envelope = {
        "route": "check",
        "request_id": "statements",
        "caller": {"sub": "bench", "namespaces": ["*"], "groups": ["*"]},
        "body_b64": base64.b64encode(body).decode(),
    }
    reply = check(envelope, None)
    if reply["statusCode"] != 200:
        raise SystemExit(reply["body"])
    grounding = json.loads(reply["body"])["grounding"]
    return {
        "grounded": grounding["grounded"],
        "sentences": [
            {key: one[key] for key in ("verdict", "support", "reasons")}
            for one in grounding["sentences"]
        ],
    }


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count, for each way of asking, the true and the false statements that pass, by form too."""
    made: dict[str, Any] = {}
    for way in ("found", "cited"):
        forms: dict[str, Counter[str]] = defaultdict(Counter)
        for row in rows:
            kind = "true" if row["true"] else "false"
            for key in (row["form"], "every form"):
                forms[key][kind] += 1
                forms[key][f"{kind}, passed"] += row[way]["grounded"]
        made[way] = {form: dict(counts) for form, counts in sorted(forms.items())}
    return made


if __name__ == "__main__":
    main()
