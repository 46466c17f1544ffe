"""True and false statements through /v1/check without citations: how many are called supported.

    python -m benchmarks.check_claims ../shared/data/medical_guidelines --namespace NS --index URL

True: evidence statements of `answers.jsonl` none of which stands word for word in the loaded text.
False: made from them by the rules of benchmarks.false_claims, the same number by each. Nothing of
this set was used in fitting (benchmarks.train_verdicts). The set must be loaded first.
"""

import argparse
import base64
import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.false_claims import RULES
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from functions.check import handler


def main() -> None:
    """Print the shares and, on request, every statement with its verdict."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--namespace", default="default")
    arguments.add_argument("--index", required=True)
    arguments.add_argument("--true", type=int, default=300)
    arguments.add_argument("--each", type=int, default=60, help="false statements by each rule")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    true = statements(options.folder)[: options.true]
    rng = random.Random(11)
    cases = [("true", statement) for statement in true]
    for name, rule in RULES.items():
        made = [(name, claim) for text in true if (claim := rule(text, rng, true))]
        rng.shuffle(made)
        cases += made[: options.each]
    settings = Settings(index_url=options.index, graph_url=options.index)
    check = handler.build(Wiring(settings))
    rows = [row_of(check, kind, text, options.namespace) for kind, text in cases]
    print(json.dumps(summary(rows), indent=1))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def statements(folder: Path) -> list[str]:
    """Give the evidence statements that do not stand in the text, in a fixed random order."""
    source = _plain(" ".join(path.read_text("utf-8") for path in folder.glob("*.txt")))
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    own = dict.fromkeys(text.strip() for row in rows for text in row.get("evidence", ()))
    chosen = [text for text in own if _plain(text).strip(" .") not in source]
    random.Random(5).shuffle(chosen)
    return chosen


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\s+", " ", text).casefold().split())


def row_of(check: Any, kind: str, text: str, namespace: str) -> dict[str, Any]:
    """Check one statement."""
    body = json.dumps({"text": text, "namespace": namespace}).encode()
    envelope = {
        "route": "check",
        "request_id": "bench",
        "caller": {"sub": "bench", "namespaces": ["*"], "groups": ["*"]},
        "body_b64": base64.b64encode(body).decode(),
    }
    reply = json.loads(check(envelope, None)["body"])
    verdicts = reply["grounding"]["sentences"]
    return {
        "kind": kind,
        "text": text,
        "verdict": verdicts[0]["verdict"] if verdicts else "none",
        "support": verdicts[0]["support"] if verdicts else 0.0,
        "reasons": verdicts[0]["reasons"] if verdicts else [],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Give, per kind, how many are called what and the share that is supported."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        verdicts[row["kind"]][row["verdict"]] += 1
        if row["kind"] != "true":
            verdicts["false, all"][row["verdict"]] += 1
    return {
        kind: {
            **counts,
            "n": sum(counts.values()),
            "supported_share": round(counts["supported"] / sum(counts.values()), 3),
        }
        for kind, counts in verdicts.items()
    }


if __name__ == "__main__":
    main()
