"""The largest legal request stays under the platform's limit at every state."""

import base64
import json

import pytest

from docstokg.contracts.envelope import Caller, Envelope
from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.wiring import Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from tests.conftest import load_folder, write_corpus

WIDE = "\U00010348"


@pytest.fixture(scope="module")
def wide_store(tmp_path_factory, cache_dir):
    """230 chunks of 4-byte letters that share a word, all mentioning one of a few entities."""
    folder = tmp_path_factory.mktemp("wide")
    chunks = []
    for number in range(230):
        words = " ".join(WIDE * 12 + f"{number}x{place}" for place in range(90))
        chunks.append(
            {
                "id": f"{WIDE * 20}{number}",
                "doc_id": f"{WIDE * 20}{number}",
                "title": f"{WIDE * 30} {number}",
                "section": WIDE * 60,
                "uri": WIDE * 60,
                "metadata": {"kind": "wide"},
                "text": f"seizure {words}. seizure {WIDE * 300}. Entity{number % 7} {WIDE * 200}.",
            }
        )
    entities = [{"id": f"E:{n}", "name": f"Entity{n}", "type": WIDE * 20} for n in range(7)]
    relations = [
        {
            "source": f"E:{n}",
            "type": f"{WIDE * 10}{n}",
            "target": f"E:{(n + 1) % 7}",
            "evidence": {"chunk_id": chunks[n]["id"]},
        }
        for n in range(7)
    ]
    write_corpus(
        folder / "c",
        {"chunks.jsonl": chunks, "entities.jsonl": entities, "relations.jsonl": relations},
    )
    load_folder(folder / "c", folder / "s.sqlite", cache_dir, embed=False)
    return folder / "s.sqlite"


@pytest.mark.parametrize(
    ("verbosity", "synthesize"), [("snippet", True), ("full", False), ("graph", True)]
)
def test_every_state_stays_under_the_limit(wide_store, settings_for, verbosity, synthesize) -> None:
    body = {
        "query": ("seizure Entity1 Entity2 " + WIDE * 4090)[:4096],
        "top_k": 100,
        "budget": {
            "max_chunks": 100,
            "max_tokens_context": 32000,
            "timeout_s": 20,
            "max_tokens_gen": 4096 if synthesize else 0,
        },
        "kg_expansion": {"limit": 100, "hops": 2},
        "verbosity": verbosity,
        "synthesis": {"enabled": synthesize, "model": "extractive", "system_prompt": WIDE * 2000},
        "filter": {f"{WIDE * 8}{n}": [WIDE * 8] for n in range(0)},
    }
    raw = json.dumps(body, ensure_ascii=False).encode()
    assert len(raw) <= 65_536
    envelope = Envelope(
        route="answer",
        request_id="r",
        body_b64=base64.b64encode(raw).decode(),
        caller=Caller(sub="x", namespaces=("*",), groups=("*",)),
    )
    done = LocalWorkflow(Wiring(settings_for(wide_store))).execute(envelope)
    assert done.status == "SUCCEEDED", (done.error, done.cause)
    assert done.output["statusCode"] == 200, done.output["body"][:500]
    for state, given, returned in done.sizes:
        assert max(given, returned) < STATE_LIMIT_BYTES, state
    response = json.loads(done.output["body"])
    assert len(response["citations"]) >= 40
    for citation in response["citations"]:
        length = citation["char_end"] - citation["char_start"]
        assert length == len(citation["snippet"]) > 0
    assert "payload_trimmed" in response["diagnostics"]["degraded_reasons"]
