"""The fitting command ends with an error if fitted and measured texts overlap."""

from pathlib import Path

import pytest

from tests.conftest import write_corpus
from training.leaks import Leak, kept_texts, refuse_shared

PARAGRAPH = "Cranes stand by the water all day and fly to the fields when the sun goes down again."


@pytest.fixture
def held_out(tmp_path: Path) -> tuple[set[str], set[str]]:
    """One question, and one paragraph of a text of two."""
    questions, passages = [{"question": "Where do cranes stand?"}], [{"text": f"A.\n\n{PARAGRAPH}"}]
    return kept_texts(
        [write_corpus(tmp_path, {"questions.jsonl": questions, "passages.jsonl": passages})]
    )


def test_shared_texts_are_refused_in_any_spelling(
    held_out: tuple[set[str], set[str]],
) -> None:
    with pytest.raises(Leak, match="question"):
        refuse_shared(["where do  cranes STAND"], [], held_out)
    with pytest.raises(Leak, match="paragraph"):
        refuse_shared([], [f"Something else before it.\n\n{PARAGRAPH.upper()}"], held_out)
    refuse_shared(["Where do cranes fly?"], ["Short.\n\nCranes stand by the water."], held_out)


def test_a_missing_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kept_texts([tmp_path / "absent"])
