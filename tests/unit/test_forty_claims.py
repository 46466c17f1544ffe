"""Forty short claims, each cited to its passage: half are true, half are careful falsehoods."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.http.verifier import HttpVerifier
from docstokg.contracts.response import Grounding
from docstokg.contracts.state import Block
from docstokg.usecases.check_answer import check_answer
from docstokg.usecases.verification import asking
from tests.plans import call
from tests.verifier_server import VerifierServer, serving

TEXTS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("forty_claims.json").read_text("utf-8")
)
BLOCKS = [
    Block(rank=rank, uuid=case["id"], text=case["passage"], document_name=case["id"], relevance=5)
    for rank, case in enumerate(TEXTS, 1)
]
CLAIMS = [(rank, claim) for rank, case in enumerate(TEXTS, 1) for claim in case["claims"]]
"""Rank of the passage, and the claim {kind, text, true}."""
LABELS = {True: "ENTAILMENT", False: "CONTRADICTION"}


def cited(text: str, rank: int) -> str:
    return f"{text.rstrip('.')} [{rank}]."


def verified(script: Mapping[str, str]) -> dict[str, Grounding]:
    """Return the grounding of each claim, with a `/predict` server that returns these labels."""
    groundings = {}
    with serving(VerifierServer(script=dict(script))) as server:
        for rank, claim in CLAIMS:
            verifier = HttpVerifier(f"{server.url}/predict", "entailment", 0.5)
            bound = asking(call(), verifier)
            checked = check_answer(cited(claim["text"], rank), BLOCKS, verifier=bound)
            groundings[claim["text"]] = checked.grounding
    return groundings


@pytest.mark.parametrize("case", CLAIMS, ids=lambda case: case[1]["text"][:40])
def test_without_a_verifier_no_free_claim_is_grounded(case: tuple[int, dict[str, Any]]) -> None:
    rank, claim = case
    report = check_answer(cited(claim["text"], rank), BLOCKS).grounding
    assert report.grounded is None
    assert [sentence.verdict for sentence in report.sentences] == ["unverified"]


@pytest.mark.parametrize("is_right", [True, False])
def test_with_a_verifier_the_verdicts_are_its_own(is_right: bool) -> None:
    script = {claim["text"]: LABELS[claim["true"] is is_right] for _, claim in CLAIMS}
    for text, report in verified(script).items():
        (sentence,) = report.sentences
        is_supported = script[text] == "ENTAILMENT"
        assert sentence.verdict == ("supported" if is_supported else "unsupported"), text
        assert sentence.decided_by == report.checked_by[1].name
        assert report.grounded is is_supported
        assert ("contradicted" in sentence.reasons) is not is_supported
