"""True and false statements through /v1/check without citations: how many are called supported.

    python -m benchmarks.check_claims ../shared/data/medical_guidelines --namespace NS --index URL
        [--skip 600] [--true 1260 --draws 5]
    python -m benchmarks.check_claims benchmarks/manual_claims.jsonl --namespace NS --index URL

The set must be loaded first. True: what people wrote about the text in their own words (evidence
of `answers*.jsonl`; else `long_answer` of `questions*.jsonl`, of questions answered with yes), none
of which stands word for word in it. A folder without such files lends its own sentences: these
are quotations, so only what is made of them says anything. False: made from the true ones by
the rules of training.false_claims, the same number by each; chance is large in sixty, so
`--draws` draws them several times and gives the mean and the spread of their shares. Nothing of
these sets was used in fitting (training.verdicts), but rules were written while looking at
the first 600 statements of medical_guidelines, and thresholds chosen with all in view. The
second form takes ready statements, each with its kind: some on manual pages of
Debian (half of them, "seen", were looked at when rules were written).
"""

import argparse
import base64
import json
import random
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstokg.domain.text.sentences import sentences
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.check import handler
from training.false_claims import RULES

SEED = 11
SENTENCE = re.compile(r"[A-Z].*[.]")


def main() -> None:
    """Print the shares and, on request, every statement with its verdict."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--namespace", default="default")
    arguments.add_argument("--index", required=True)
    arguments.add_argument("--true", type=int, default=300)
    arguments.add_argument("--skip", type=int, default=0, help="statements left out at the front")
    arguments.add_argument("--each", type=int, default=60, help="false statements by each rule")
    arguments.add_argument("--draws", type=int, default=1, help="how often false ones are drawn")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    wiring = Wiring(Settings(index_url=options.index, graph_url=options.index))
    if empty := nothing_in(wiring, options.namespace):
        arguments.error(empty)
    if options.folder.is_file():
        draws = [[(row["kind"], row["text"]) for row in _lines(options.folder)]]
    else:
        true = statements(options.folder)[options.skip : options.skip + options.true]
        draws = [made_from(true, options.each, SEED + draw) for draw in range(options.draws)]
        draws = [draws[0], *([case for case in draw if case[0] != "true"] for draw in draws[1:])]
    if not draws[0]:
        arguments.error(f"{options.folder} holds no statement behind the first {options.skip}")
    check = handler.build(wiring)
    drawn = [
        [row_of(check, kind, text, options.namespace) for kind, text in cases] for cases in draws
    ]
    rows = [row for own in drawn for row in own]
    print(json.dumps(summary(rows), indent=1))
    if len(drawn) > 1:
        print(json.dumps(spread([summary(own) for own in drawn]), indent=1))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def nothing_in(wiring: Wiring, namespace: str) -> str | None:
    """Say what to do where a namespace is empty: every claim would be called unsupported."""
    loaded = wiring.search_index().info(60.0).namespaces
    if namespace in loaded:
        return None
    url = wiring.settings.index_url
    if not loaded:
        return f"nothing is loaded in {url}: `docstokg load FOLDER --index {url}` first"
    return f"namespace {namespace!r} of {url} is empty: add --namespace {' or '.join(loaded)}"


def made_from(true: Sequence[str], each: int, seed: int = SEED) -> list[tuple[str, str]]:
    """Give (kind, statement): the true ones, and at most `each` false ones by each rule."""
    rng = random.Random(seed)
    cases = [("true", statement) for statement in true]
    for name, rule in RULES.items():
        made = [(name, claim) for text in true if (claim := rule(text, rng, true))]
        rng.shuffle(made)
        cases += made[:each]
    return cases


def statements(folder: Path) -> list[str]:
    """Give the statements about the text of a folder, in a fixed random order."""
    written = [text for file in sorted(folder.glob("answers*.jsonl")) for text in _evidence(file)]
    files = sorted(folder.glob("questions*.jsonl"))
    written = written or [text for file in files for text in _conclusions(file)]
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("*.txt"))]
    source = _plain(" ".join(texts))
    chosen = [one for one in dict.fromkeys(written) if _plain(one).strip(" .") not in source]
    chosen = chosen or list(dict.fromkeys(one for text in texts for one in _own(text)))
    random.Random(5).shuffle(chosen)
    return chosen


def _evidence(file: Path) -> list[str]:
    return [one.strip() for row in _lines(file) for one in row.get("evidence", ())]


def _conclusions(file: Path) -> list[str]:
    """Take the sentences of the long answers to questions that are answered with yes."""
    rows = [row for row in _lines(file) if row.get("answer") == "yes"]
    return [one for row in rows for one in _own(row.get("long_answer", ""))]


def _own(text: str) -> list[str]:
    """Take the sentences of 6 to 30 words that begin and end as sentences do, on one line each."""
    found = [" ".join(one.split()) for one in sentences(text)]
    return [one for one in found if SENTENCE.fullmatch(one) and 6 <= len(one.split()) <= 30]


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


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
        if not row["kind"].startswith("true"):
            verdicts["false, all"][row["verdict"]] += 1
    return {
        kind: {
            **counts,
            "n": sum(counts.values()),
            "supported_share": round(counts["supported"] / sum(counts.values()), 3),
        }
        for kind, counts in verdicts.items()
    }


def spread(drawn: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Give, per kind of false statement, the mean share supported, its deviation and each draw."""
    shares = {kind: [own[kind]["supported_share"] for own in drawn] for kind in drawn[-1]}
    return {
        kind: {
            "mean": round(statistics.fmean(own), 3),
            "deviation": round(statistics.stdev(own), 3),
            "draws": own,
        }
        for kind, own in shares.items()
    }


if __name__ == "__main__":
    main()
