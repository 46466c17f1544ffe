"""OCR quality, cost and retrieval on 40 scanned pages made from this repository's texts.

    python -m benchmarks.scanned make FOLDER
    python -m benchmarks.scanned read FOLDER
    docstokg load FOLDER --namespace scans --index URL
    python -m benchmarks.scanned ask FOLDER --index URL
    python -m benchmarks.scanned sure SEED

`make` renders each text in one of three fonts at 200 dots per inch, rotates it by up to three
degrees, adds noise, saves it as JPEG, and writes four files of ten such pages. `read` prints the
character error (edit distance over the length, white space as one space), seconds and MB.
`scanned_questions.jsonl` was written from the texts before the first page was read. `sure` draws
the pages with another seed and up to 3.6 times the noise, and counts correct and wrong lines per
hundredth of the OCR confidence.
"""

import argparse
import json
import random
import re
import resource
import textwrap
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium

from benchmarks.hostile_files import pdf as write_pdf
from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.adapters.conversion.pdf_scan import read as read_page
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow

QUESTIONS = Path(__file__).with_name("scanned_questions.jsonl")
DOCS = Path(__file__).parents[1] / "docs"
FACES = (("Helvetica", 80), ("Times-Roman", 92), ("Courier", 72))
FILES, PAGES = 4, 10


def plain(markdown: str) -> str:
    """Return the words of a page without markup, at most fifty lines."""
    text = re.sub(r"^\|[-| ]+\|$\n", "", markdown, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)|[*`|\[\]#]", "", text).encode("ascii", "ignore").decode()


def lines_of(text: str, width: int) -> list[str]:
    """Wrap paragraphs into lines, separated by blank lines."""
    paragraphs = (
        textwrap.wrap(" ".join(paragraph.split()), width) for paragraph in text.split("\n\n")
    )
    return [line for lines in paragraphs for line in (*lines, "")][:52]


def pdf(pages: list[tuple[bytes, str, str]]) -> bytes:
    """Return a PDF of A4 pages, each with one resource, the resource's kind, and its content."""
    kids = " ".join(f"{3 + 3 * at} 0 R" for at in range(len(pages)))
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
    ]
    for at, (resource_object, name, content) in enumerate(pages):
        number = 3 + 3 * at
        parts += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {number + 1} 0 R"
            f"/Resources<</{name}<</X {number + 2} 0 R>>>>>>".encode(),
            f"<</Length {len(content)}>>stream\n{content}\nendstream".encode(),
            resource_object,
        ]
    return write_pdf(parts, b"<</Root 1 0 R/Size %d>>" % (len(parts) + 1))


def scanned(lines: list[str], face: str, chance: random.Random, noise: float = 25) -> bytes:
    """Return lines drawn like a scan: rotated, noisy, as JPEG."""
    import cv2

    escaped = (re.sub(r"([()\\])", r"\\\1", line) for line in lines)
    operators = "".join(f"({line}) Tj T* " for line in escaped)
    font = f"<</Type/Font/Subtype/Type1/BaseFont/{face}>>".encode()
    page = pdf([(font, "Font", f"BT /X 11 Tf 14.5 TL 56 780 Td {operators} ET")])
    drawn = pdfium.PdfDocument(page)[0].render(scale=200 / 72, grayscale=True).to_numpy()
    high, wide = drawn.shape[:2]
    turn = cv2.getRotationMatrix2D((wide / 2, high / 2), chance.uniform(-3, 3), 1.0)
    turned = cv2.warpAffine(drawn.reshape(high, wide), turn, (wide, high), borderValue=255)
    grain = np.random.default_rng(chance.randrange(1 << 30)).normal(0, noise, turned.shape)
    grey = np.clip(turned * 0.8 + 30 + grain, 0, 255).astype(np.uint8)
    jpeg = cv2.imencode(".jpg", grey, [cv2.IMWRITE_JPEG_QUALITY, 60])[1].tobytes()
    head = f"<</Subtype/Image/Width {wide}/Height {high}/BitsPerComponent 8/ColorSpace/DeviceGray"
    return f"{head}/Filter/DCTDecode/Length {len(jpeg)}>>stream\n".encode() + jpeg + b"\nendstream"


def make(folder: Path) -> None:
    """Write the files and, in hidden files, the text of each page."""
    chance = random.Random(1)
    (folder / ".truth").mkdir(parents=True, exist_ok=True)
    names = [json.loads(line)["page"] for line in QUESTIONS.read_text("utf-8").splitlines()]
    for number in range(FILES):
        pages = []
        for name in names[number * PAGES : (number + 1) * PAGES]:
            face, width = FACES[chance.randrange(len(FACES))]
            lines = lines_of(plain((DOCS / f"{name}.md").read_text("utf-8")), width)
            (folder / ".truth" / f"scan-{number}-{len(pages) + 1}").write_text("\n".join(lines))
            pages.append((scanned(lines, face, chance), "XObject", "595 0 0 842 0 0 cm /X Do"))
        (folder / f"scan-{number}.pdf").write_bytes(pdf(pages))


def errors(text: str, truth: str) -> int:
    """Return the Levenshtein distance."""
    letters = np.array([ord(letter) for letter in truth])
    steps = row = np.arange(len(truth) + 1)
    for letter in text:
        changed = row[:-1] + (letters != ord(letter))
        row = np.concatenate(([row[0] + 1], np.minimum(row[1:] + 1, changed)))
        row = np.minimum.accumulate(row - steps) + steps
    return int(row[-1])


def read(folder: Path) -> None:
    """Print each page's character error, time and memory."""
    converter, wrong, length, began = ChildConverter(), 0, 0, time.perf_counter()
    texts = []
    for path in sorted(folder.glob("*.pdf")):
        (outline,) = converter.convert(".pdf", path.read_bytes())
        starts = [block.start for block in outline.blocks if block.kind == "page"]
        for number, (start, end) in enumerate(pairwise([*starts, len(outline.text)]), 1):
            texts.append((f"{path.stem}-{number}", outline.text[start:end]))
    took = time.perf_counter() - began
    converter.close()
    for name, text in texts:
        truth = " ".join((folder / ".truth" / name).read_text("utf-8").split())
        missed = errors(" ".join(text.split()), truth)
        wrong, length = wrong + missed, length + len(truth)
        print(f"{name:12} {missed:4} of {len(truth):5,}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    each, cpu = took / len(texts), (used.ru_utime + used.ru_stime) / len(texts)
    print(f"character error {wrong / length:.4f}; a page {each:.2f} s, {cpu:.2f} s of a processor")
    print(f"{used.ru_maxrss >> 10} MB at most")


def sure(seed: int) -> None:
    """Print the number of correct and wrong lines per hundredth of the OCR confidence."""
    chance, counts = random.Random(seed), defaultdict[int, list[int]](lambda: [0, 0])
    for row in QUESTIONS.read_text("utf-8").splitlines():
        face, width = FACES[chance.randrange(len(FACES))]
        lines = lines_of(plain((DOCS / f"{json.loads(row)['page']}.md").read_text("utf-8")), width)
        picture = scanned(lines, face, chance, chance.uniform(25, 90))
        page = pdfium.PdfDocument(pdf([(picture, "XObject", "595 0 0 842 0 0 cm /X Do")]))[0]
        for words in read_page(page):
            text = " ".join(word for word, _, _ in words)
            counts[min(confidence for _, _, confidence in words) // 10][text in lines] += 1
    for hundredth, (wrong, right) in sorted(counts.items()):
        print(f".{hundredth:02} {wrong:4} wrong {right:4} right")


def ask_all(wiring: Wiring) -> None:
    """Print each question with the rank of its page, and the number of first and found pages."""
    flow, first, hits = LocalWorkflow(wiring), 0, 0
    for at, line in enumerate(QUESTIONS.read_text("utf-8").splitlines()):
        question = json.loads(line)["question"]
        request = {"query": question, "namespace": "scans", "budget": {"timeout_s": 30}}
        citations = submit(flow, request).body["citations"]
        gold = (f"scan-{at // PAGES}.pdf", at % PAGES + 1)
        pages = list(
            dict.fromkeys((citation["doc_id"], citation["page"]) for citation in citations)
        )
        rank = pages.index(gold) + 1 if gold in pages else 0
        first, hits = first + (rank == 1), hits + bool(rank)
        assert all(
            citation["ocr"] and citation["ocr_confidence"] and citation["boxes"]
            for citation in citations
        )
        print(f"{rank:3} {question}")
    print(f"first {first}, found {hits}")


def main() -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "read", "ask", "sure"))
    parser.add_argument("folder", type=Path, help="folder, or the seed of `sure`")
    parser.add_argument("--index", default="")
    options = parser.parse_args()
    if options.what == "ask":
        ask_all(Wiring(settings_of(options.index, options.index), Telemetry(level="ERROR")))
    elif options.what == "sure":
        sure(int(options.folder.name))
    else:
        (make if options.what == "make" else read)(options.folder)


if __name__ == "__main__":
    main()
