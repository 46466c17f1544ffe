"""Make a question set of web pages from WildGraphBench (github.com/BstWPY/WildGraphBench).

usage: python -m benchmarks.web_pages CHECKOUT FOLDER [--topics NAME ...] [--least N] [--most N]

Writes the cited pages as FOLDER/*.txt without images and link addresses, and
FOLDER/questions.jsonl. A question is used if all its pages have a file, at most --most characters
each, and at least --least characters altogether longest. Pages of the other questions are the
distractors. Load FOLDER with `docstokg load`; `docstokg eval` and `benchmarks.orders` read it.
"""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path

SOURCE = "https://github.com/BstWPY/WildGraphBench"
TOPICS = ("people", "technology", "culture", "human_activities")
"""Topics for development; the other eight are for measuring only."""
NAME_CHARACTERS = 80
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("checkout", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--topics", nargs="+", default=TOPICS)
    options.add_argument("--least", type=int, default=0)
    options.add_argument("--most", type=int, default=8_000)
    chosen = options.parse_args()
    if not (chosen.checkout / "QA").is_dir():
        options.error(f"{chosen.checkout} is no checkout of {SOURCE}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    questions = []
    for topic in chosen.topics:
        questions += questions_of(chosen.checkout, topic, chosen.folder, chosen.least, chosen.most)
    lines = "".join(json.dumps(question, ensure_ascii=False) + "\n" for question in questions)
    (chosen.folder / "questions.jsonl").write_text(lines, "utf-8")
    several = sum(len(question["gold"]) > 1 for question in questions)
    print(f"{len(questions)} questions, {several} with several pages")


def questions_of(
    checkout: Path, topic: str, folder: Path, shortest: int, longest_allowed: int
) -> list[dict[str, object]]:
    """Write the pages of a topic; return its questions with the names of their pages."""
    corpus = next((checkout / "corpus" / topic).iterdir())
    pages = pages_of(corpus)
    texts = {path: plain(path.read_text("utf-8")) for path in set(pages.values())}
    questions: list[dict[str, object]] = []
    lines = (checkout / "QA" / topic / "questions.jsonl").read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        row = json.loads(line)
        cited = {pages.get(url) for url in row["ref_urls"]} or {None}
        paths = [path for path in cited if path is not None]
        longest = max((len(texts[path]) for path in paths), default=0)
        if len(paths) < len(cited) or not shortest <= longest < longest_allowed:
            continue
        for path in paths:
            (folder / path.name).write_text(texts[path], "utf-8")
        gold = sorted(path.name for path in paths)
        questions.append(
            {"id": f"{topic}-{number}", "question": row["question"], "gold": gold, "topic": topic}
        )
    return questions


def pages_of(corpus: Path) -> Mapping[str, Path]:
    """Return the page of each reference's address, matched by title."""
    paths = {key(path.stem): path for path in (corpus / "reference_pages").glob("*.txt")}
    pages: dict[str, Path] = {}
    for line in (corpus / "references.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        path = paths.get(key(row["title"]))
        for url in (row["url"], row["archive_url"]):
            if url and path is not None:
                pages[url] = path
    return pages


def key(title: str) -> str:
    """Return the file name of a title: letters, digits, spaces and hyphens, cut at 80."""
    return " ".join(re.sub(r"[^A-Za-z0-9 _-]", "", title).split())[:NAME_CHARACTERS].strip()


def plain(text: str) -> str:
    """Return a page without images and link addresses."""
    return LINK.sub(r"\1", IMAGE.sub("", text))


if __name__ == "__main__":
    main()
