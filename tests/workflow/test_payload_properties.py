"""Whatever a legal request fills its 64 KiB with, every state stays under the platform's limit."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from docstokg.contracts.envelope import Caller, Envelope
from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg.wiring import Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from tests.workflow.test_payload import WIDE, wide_store

__all__ = ["wide_store"]

MOST_BYTES = 65_536
LETTERS = ("a", "é", "日", "ك", WIDE, '"', "\\", "\u2028")
Body = dict[str, Any]


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
    fillings=FILLINGS,
    verbosity=st.sampled_from(["graph", "full", "snippet"]),
    synthesize=st.booleans(),
    groups=st.sampled_from([1, 300]),
)
@example(
    fillings=((_filter, WIDE, 50), (_query, WIDE, 4096)),
    verbosity="graph",
    synthesize=False,
    groups=300,
)
@example(
    fillings=((_seeds, "日", 30), (_query, "日", 4096)),
    verbosity="graph",
    synthesize=True,
    groups=1,
)
def test_no_legal_request_outgrows_a_state(
    wide_store: Path,
    settings_for: Any,
    fillings: Fillings,
    verbosity: str,
    synthesize: bool,
    groups: int,
) -> None:
    raw = filled(fillings, verbosity, synthesize)
    names = ("*",) if groups == 1 else tuple(f"group-{n:03}-of-this-caller" for n in range(groups))
    envelope = Envelope(
        route="answer",
        request_id="r",
        body_b64=base64.b64encode(raw).decode(),
        caller=Caller(sub="x", namespaces=("*",), groups=names),
    )
    done = LocalWorkflow(Wiring(settings_for(wide_store, max_timeout_s=25))).execute(envelope)
    assert done.status == "SUCCEEDED", (done.error, done.cause)
    body = done.output["body"]
    assert done.output["statusCode"] in (200, 429), body[:500]
    for state, given_bytes, returned in done.sizes:
        assert max(given_bytes, returned) < STATE_LIMIT_BYTES, state
    assert len(body.encode()) < STATE_LIMIT_BYTES
