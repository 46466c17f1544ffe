"""Log entries on answers without support by their sources."""

from docstokg.contracts.state import Block
from docstokg.usecases.check_answer import ground_text
from docstokg_functions.respond.respond import doubts

BLOCK = Block(rank=1, uuid="u", text="The lamp lasts nine years.", document_name="d", relevance=9)


def test_each_cause_is_named_and_none_without_one() -> None:
    assert doubts(ground_text("The lamp lasts nine years [1].", [BLOCK])) == []
    assert doubts(ground_text("The lamp lasts nine years [1][7].", [BLOCK])) == ["orphan_markers"]
    bare = "The lamp lasts nine years. It was made by hand in a small town by the sea."
    assert doubts(ground_text(bare, [BLOCK])) == ["low_coverage"]
    report = ground_text("The lamp lasts eleven hundred and 12 years [1].", [BLOCK])
    assert doubts(report) == []
    refuted = [
        sentence.model_copy(update={"verdict": "unsupported"}) for sentence in report.sentences
    ]
    assert doubts(report.model_copy(update={"sentences": refuted})) == ["unsupported"]
