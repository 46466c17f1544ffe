"""Create folders of questions and documents from checkouts of public repositories.

    python -m training.sets fairytale CHECKOUT FOLDER    uci-soe/FairytaleQAData
    python -m training.sets nqg CHECKOUT FOLDER          xinyadu/nqg, its part `test`
    python -m training.sets subjqa CHECKOUT FOLDER       megagonlabs/SubjQA, dev and test
    python -m training.sets hotpotqa CHECKOUT FOLDER     somebodyhh1/ConfuseBench, 130 two-hop
    python -m training.sets ambigqa CHECKOUT FOLDER      the same, 130 one-hop

CHECKOUT is a git directory. FOLDER gets `docs/` to load and `answers.jsonl`; fairytale creates
FOLDER from 80 stories for training and FOLDER-kept from 30 others. Three fifths of each story's
sections are loaded, drawn by seed; questions on the others are near misses. The texts must not be
committed to this repository.
"""

import csv
import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SEED = 20261123
KEPT, FITTED = 30, 80
SECTIONS_LOADED = 0.6
SENTENCES_A_PASSAGE = 6
NQG_QUESTIONS = 1500
SUBJQA_ANSWERED, SUBJQA_UNANSWERED = 220, 110
SUBJQA_DOMAINS = ("electronics", "grocery", "restaurants", "tripadvisor")


def git(checkout: Path, *arguments: str) -> str:
    """Run git on a directory without a work tree."""
    command = ["git", "--git-dir", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lines(path: Path, rows: Sequence[Row]) -> None:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def page(folder: Path, name: str, text: str) -> None:
    """Write a document."""
    path = folder / "docs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", "utf-8")


def fairytale(checkout: Path, folder: Path) -> None:
    """Write the test stories and the training stories."""
    listed = git(
        checkout, "ls-tree", "-r", "--name-only", "HEAD", "data-by-train-split/questions"
    ).split()
    files = {path.rpartition("/")[2].removesuffix("-questions.csv"): path for path in listed}
    order = sorted(files)
    random.Random(SEED).shuffle(order)
    parts = {f"{folder}-kept": order[:KEPT], str(folder): order[KEPT : KEPT + FITTED]}
    for place, stories in parts.items():
        rows: list[Row] = []
        for story in stories:
            path = f"data-by-train-split/section-stories/all/{story}-story.csv"
            sections = _csv(git(checkout, "show", f"HEAD:{path}"))
            ids = [section["section"] for section in sections]
            drawn = random.Random(story).sample(ids, max(1, round(SECTIONS_LOADED * len(ids))))
            texts = [one["text"].strip() for one in sections if one["section"] in drawn]
            title = story.replace("-", " ").capitalize()
            page(Path(place), f"{story}.md", "\n\n".join([f"# {title}", *texts]))
            for asked in _csv(git(checkout, "show", f"HEAD:{files[story]}")):
                rows += _of_story(story, asked, set(drawn))
        lines(Path(place) / "answers.jsonl", rows)


def _of_story(story: str, asked: Row, loaded: set[str]) -> list[Row]:
    golds = [one.strip() for n in range(1, 7) if (one := asked.get(f"answer{n}") or "").strip()]
    inside = [section.strip() in loaded for section in asked["cor_section"].split(",")]
    if not golds or (any(inside) and not all(inside)):
        return []
    kind = "answerable" if all(inside) else "near"
    id_, question = f"{story}-{asked['question_id']}", asked["question"].strip()
    return [{"id": id_, "question": question, "answer": golds[0], "golds": golds, "type": kind}]


def nqg(checkout: Path, folder: Path) -> None:
    """Write passages of adjacent sentences; the answer to a question is its sentence."""
    sources, targets = (
        git(checkout, "show", f"HEAD:data/processed/{name}-test.txt").strip("\n").split("\n")
        for name in ("src", "tgt")
    )
    place = {source: n for n, source in enumerate(dict.fromkeys(sources))}
    sentences = [_detokenised(source) for source in place]
    passages = [
        {"id": f"n{n}", "doc_id": f"n{n}", "text": " ".join(sentences[at : at + 6])}
        for n, at in enumerate(range(0, len(sentences), SENTENCES_A_PASSAGE))
    ]
    lines(folder / "docs" / "passages.jsonl", passages)
    drawn = random.Random(1).sample(range(len(sources)), NQG_QUESTIONS)
    rows = [
        {
            "id": f"q{n}",
            "question": _detokenised(targets[n]),
            "answer": sentences[place[sources[n]]],
            "type": "answerable",
            "whole": True,
            "gold": [f"n{place[sources[n]] // SENTENCES_A_PASSAGE}"],
        }
        for n in drawn
    ]
    lines(folder / "answers.jsonl", rows)


def _detokenised(text: str) -> str:
    for token, sign in (("`` ", '"'), (" ''", '"'), ("-lrb- ", "("), (" -rrb-", ")")):
        text = text.replace(token, sign)
    text = re.sub(r" ([.,;:?!%)]|(?:'s|n't|'re|'ve|'ll|'d)\b)", r"\1", text).strip()
    text = text[:1].upper() + text[1:]
    return text if text[-1:] in '.!?"' else f"{text}."


def subjqa(checkout: Path, folder: Path) -> None:
    """Write reviews and questions; a question is answered from its own review only."""
    csv.field_size_limit(10**9)
    draw = random.Random(2)
    rows: list[Row] = []
    reviews: dict[str, Row] = {}
    for domain in SUBJQA_DOMAINS:
        own: list[Row] = []
        for part in ("dev", "test"):
            for one in _csv(git(checkout, "show", f"HEAD:SubjQA/{domain}/splits/{part}.csv")):
                gold, review = one["human_ans_spans"], one["review_id"]
                if len(gold.split()) < 2 and gold != "ANSWERNOTFOUND":
                    continue
                text = one["review"].removesuffix("ANSWERNOTFOUND").strip()
                title = "Review of " + one["item_id"].replace("_", " ")
                reviews[review] = {
                    **{"id": review, "doc_id": review, "text": text, "title": title},
                    "metadata": {"item": review},
                }
                kind = "none" if gold == "ANSWERNOTFOUND" else "answerable"
                own.append(
                    {
                        **{"id": one["q_review_id"], "question": one["question"]},
                        **{"answer": gold, "type": kind, "item": review},
                    }
                )
        draw.shuffle(own)
        rows += [row for row in own if row["type"] == "answerable"][:SUBJQA_ANSWERED]
        rows += [row for row in own if row["type"] == "none"][:SUBJQA_UNANSWERED]
    used = sorted({row["item"] for row in rows})
    lines(folder / "docs" / "passages.jsonl", [reviews[review] for review in used])
    lines(folder / "answers.jsonl", rows)


def confused(checkout: Path, folder: Path, name: str, hops: int) -> None:
    """Write questions over all passages of a set, without yes/no questions."""
    own: list[Row] = json.loads(git(checkout, "show", f"HEAD:data/{name}.json"))
    passages = list(dict.fromkeys(text for row in own for text in row["gold_doc"] + row["doc"]))
    ids = {text: f"{name}{n}.md" for n, text in enumerate(passages)}
    rows = [
        {
            "id": f"{name}-{n}",
            "question": row["original_query"] or row["question"],
            "answer": str(row["answer"]),
            "type": "answerable",
            "gold": [ids[text] for text in row["gold_doc"]],
            "hops": hops,
        }
        for n, row in enumerate(own)
        if str(row["answer"]).strip().casefold() not in ("yes", "no")
    ]
    lines(folder / "answers.jsonl", rows)
    for text, id_ in ids.items():
        page(folder, id_, text)


def _csv(text: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(text)))


MAKERS: dict[str, Callable[[Path, Path], None]] = {
    "fairytale": fairytale,
    "nqg": nqg,
    "subjqa": subjqa,
    "hotpotqa": partial(confused, name="hotpotqa", hops=2),
    "ambigqa": partial(confused, name="ambigQA", hops=1),
}

if __name__ == "__main__":
    MAKERS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
