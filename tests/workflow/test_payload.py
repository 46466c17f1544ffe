"""Whatever a legal request fills its 64 KiB with, every state stays under the platform's limit."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from docstokg.contracts.envelope import Caller
from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.wiring import Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from tests.builders import settings_at
from tests.conftest import store_of
from tests.envelopes import envelope

# Its store is loaded once, not by each worker.
pytestmark = pytest.mark.xdist_group("payload")
WIDE = "\U00010348"
MOST_BYTES = 65_536
LETTERS = ("a", "é", "日", "ك", WIDE, '"', "\\", "\u2028")
Body = dict[str, Any]


@pytest.fixture(scope="module")
def workflow(
    tmp_path_factory: pytest.TempPathFactory, cache_dir: Path, models: dict[str, Any]
) -> Iterator[LocalWorkflow]:
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
    rows = {"chunks.jsonl": chunks, "entities.jsonl": entities, "relations.jsonl": relations}
    store = store_of(folder, cache_dir, rows, embed=False)
    at = settings_at(store, cache_dir=folder, max_timeout_s=25)
    wiring = Wiring(at, ports=models)
    yield LocalWorkflow(wiring)
    wiring.close()


def _query(body: Body, letter: str, count: int) -> None:
    body["query"] = ("seizure Entity1 Entity2 " + letter * count)[:4096]


def _seeds(body: Body, letter: str, count: int) -> None:
    body["kg_expansion"]["seeds"] = [f"{number}{letter * 509}" for number in range(count % 51)]


def _relations(body: Body, letter: str, count: int) -> None:
    body["kg_expansion"]["relations"] = [f"{n}{letter * 125}" for n in range(count % 51)]


def _whitelist(body: Body, letter: str, count: int) -> None:
    names = [f"{number}{letter * 125}" for number in range(count % 51)]
    body["limits"] = {"graph": {"max_nodes_hard": 200, "max_depth_hard": 5, "rel_whitelist": names}}


def _prompt(body: Body, letter: str, count: int) -> None:
    body["synthesis"]["system_prompt"] = letter * (count % 2001)


def _filter(body: Body, letter: str, count: int) -> None:
    body["filter"] = {"kind": ["wide", *(letter * 200 + str(n) for n in range(count % 90))]}


FILLERS = (_query, _seeds, _relations, _whitelist, _prompt, _filter)


FILLINGS = st.permutations(FILLERS).flatmap(
    lambda fillers: st.tuples(
        *(
            st.tuples(
                st.just(fill),
                st.sampled_from(LETTERS),
                st.sampled_from([0, 1, 3, 15, 50, 89, 2000, 4096]),
            )
            for fill in fillers
        )
    )
)
Fillings = Sequence[tuple[Callable[[Body, str, int], None], str, int]]


def filled(fillings: Fillings, verbosity: str, synthesize: bool) -> bytes:
    """A legal body whose parts are as large as they may be, one after another, up to 64 KiB."""
    body: Body = {
        "query": "seizure Entity1 Entity2",
        "top_k": 100,
        "budget": {"max_chunks": 100, "max_tokens_context": 32000, "timeout_s": 25},
        "kg_expansion": {"limit": 100, "hops": 3},
        "verbosity": verbosity,
        "synthesis": {"enabled": synthesize, "model": "extractive"},
    }
    body["budget"]["max_tokens_gen"] = 4096 if synthesize else 0
    for fill, letter, count in fillings:
        fuller = json.loads(json.dumps(body))
        fill(fuller, letter, count)
        if len(_bytes(fuller)) <= MOST_BYTES:
            body = fuller
    return _bytes(body)


def _bytes(body: Body) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def sent(
    workflow: LocalWorkflow, raw: bytes, statuses: tuple[int, ...], groups: Sequence[str]
) -> str:
    """The body of the answer; every state on its way and the answer stay below the limit."""
    caller = Caller(sub="x", namespaces=("*",), groups=tuple(groups))
    done = workflow.execute(envelope(raw, caller=caller))
    assert done.status == "SUCCEEDED", (done.error, done.cause)
    body: str = done.output["body"]
    assert done.output["statusCode"] in statuses, body[:500]
    for state, given_bytes, returned in done.sizes:
        assert max(given_bytes, returned) < STATE_LIMIT_BYTES, state
    assert len(body.encode()) < STATE_LIMIT_BYTES
    return body


@pytest.mark.parametrize(
    ("verbosity", "synthesize"), [("snippet", True), ("full", False), ("graph", True)]
)
def test_trimmed_parts_are_named_and_others_whole(
    workflow: LocalWorkflow, verbosity: str, synthesize: bool
) -> None:
    raw = filled(((_query, WIDE, 4096), (_prompt, WIDE, 2000)), verbosity, synthesize)
    response = json.loads(sent(workflow, raw, (200,), ["*"]))
    assert len(response["citations"]) >= 40
    for citation in response["citations"]:
        length = citation["char_end"] - citation["char_start"]
        assert length == len(citation["snippet"]) > 0
    assert "payload_trimmed" in response["diagnostics"]["degraded_reasons"]


@pytest.mark.timeout(300)
@settings(
    max_examples=6,
    # A found example is legible as it is; looking for a smaller one takes minutes.
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    FILLINGS,
    st.sampled_from(["graph", "full", "snippet"]),
    st.booleans(),
    st.sampled_from([1, 300]),
)
@example(((_filter, WIDE, 50), (_query, WIDE, 4096)), "graph", False, 300)
@example(((_seeds, "日", 30), (_query, "日", 4096)), "graph", True, 1)
def test_no_legal_request_outgrows_a_state(
    workflow: LocalWorkflow,
    fillings: Fillings,
    verbosity: str,
    synthesize: bool,
    groups: int,
) -> None:
    raw = filled(fillings, verbosity, synthesize)
    names = ["*"] if groups == 1 else [f"group-{n:03}-of-this-caller" for n in range(groups)]
    sent(workflow, raw, (200, 429), names)
