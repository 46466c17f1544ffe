"""OCR by RapidOCR."""

import re
from collections.abc import Sequence
from functools import cache
from statistics import median
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from docstokg.adapters.conversion.pdf_page import DEEPEST_FORM, Box, Word
from docstokg.adapters.conversion.pdf_tables import rows_of

# Longer side of the page picture, in pixels.
PIXELS = 1_600

# Longer side of the picture for line detection; it determines the peak memory.
DETECTED = 1_280

# A page's lines of words: text, box, and line confidence in thousandths.
type Reading = list[list[tuple[str, Box, int]]]


def is_scanned(page: pdfium.PdfPage) -> bool:
    """Return whether a page has a picture and no text layer."""
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=DEEPEST_FORM)
    return not raw.FPDFText_CountChars(page.get_textpage()) and any(True for _ in pictures)


@cache
def reader() -> Any:
    """Load the OCR models once, single-threaded."""
    import cv2
    import numpy as np
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    engine = "EngineConfig.onnxruntime"
    made = RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": PIXELS,
            "Global.use_cls": False,
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTED,
            "Rec.rec_batch_num": 1,
            f"{engine}.intra_op_num_threads": 1,
            f"{engine}.inter_op_num_threads": 1,
        }
    )
    blank = np.full((64, 256, 3), 255, np.uint8)
    made(blank, use_det=False)
    made(blank, use_det=True)
    return made


def read(page: pdfium.PdfPage) -> Reading:
    """Return a page's lines of words in order, correcting a skewed scan; [] without text."""
    scale = PIXELS / max(page.get_size())
    picture = page.render(scale=scale, force_bitmap_format=raw.FPDFBitmap_BGR).to_numpy()
    result = reader()(picture)
    if result.txts is None:
        return []
    boxes = (result.boxes * 10 / scale).tolist()
    slope = median((by - ay) / max(bx - ax, 1) for (ax, ay), (bx, by), *_ in boxes)
    words = {}
    for text, box, sure in zip(result.txts, boxes, result.scores, strict=True):
        (ax, ay), _, (cx, cy), _ = box
        level = Word(text, (ax + slope * ay, ay - slope * ax, cx + slope * cy, cy - slope * cx))
        words[level] = [
            (match[0], _part(box, *(at / len(text) for at in match.span())), round(1000 * sure))
            for match in re.finditer(r"\S+", text)
        ]
    return [[word for line in row for word in words[line]] for row in rows_of(words)]


def _part(corners: Sequence[Sequence[float]], start: float, end: float) -> Box:
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = corners
    tops = [ay + (by - ay) * share for share in (start, end)]
    bottoms = [dy + (cy - dy) * share for share in (start, end)]
    x0, x1 = ax + (bx - ax) * start, dx + (cx - dx) * end
    return round(x0), round(min(tops)), round(x1), round(max(bottoms))
