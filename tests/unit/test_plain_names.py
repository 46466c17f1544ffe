"""Names say what a thing is, in the field's own word; these said it in a picture."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = re.compile(
    r"\bclass (?:Found|Walked|Given|Gated|Notebook|Made)\b|\b_Trip\b|\b_set_out\b|\b_Line\b"
    r"|wiring\.give\(|\bNursery\b|\bRouteScope\b"
    r"|domain\.(?:diversity|duplicates)\b"
)
PRODUCT = ("layers", "functions", "local", "infra")


def test_no_name_is_a_picture() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        for match in PICTURES.finditer(path.read_text("utf-8"))
    ]
    assert not found


def test_no_file_is_longer_than_a_reader_bears() -> None:
    for folder in (*PRODUCT, "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            assert path.read_text("utf-8").count("\n") <= 650, path.relative_to(ROOT)
