"""A namespace in another language, and its move to another encoder while it is asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.loading.context import NullProgress
from docstokg.loading.transfer.reembedding import reembed
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.loading.stores import stores_of
from tests.conftest import store_of

TEXTS = (
    "Die Mühle am Fluss wurde nach dem Hochwasser neu gebaut und mahlt Roggen für das ganze Tal.",
    "Der Zug nach Brixen fährt im Winter nur am Morgen, weil abends der Schnee die Strecke sperrt.",
    "Im Keller des Rathauses liegt eine Sammlung alter Karten, die niemand mehr lesen kann.",
)
QUESTIONS = ("Wann fährt die Bahn nach Brixen?", "Was liegt unter dem Rathaus?", "Who grinds rye?")


@pytest.mark.slow
def test_a_namespace_answers_while_moving_to_another_encoder(
    tmp_path: Path, settings_for: Callable[..., Settings]
) -> None:
    rows = [{"id": f"d{i}", "doc_id": f"d{i}", "text": text} for i, text in enumerate(TEXTS)]
    wiring = Wiring(settings_for(store_of(tmp_path, tmp_path, {"passages.jsonl": rows})))
    workflow = LocalWorkflow(wiring)

    def answers() -> list[list[str]]:
        bodies = [submit(workflow, {"query": question}, "search").body for question in QUESTIONS]
        assert not any(body["diagnostics"]["degraded_reasons"] for body in bodies)
        return [[f"{c['doc_id']} {c['score']}" for c in body["citations"]] for body in bodies]

    # Made, and so loaded, before the first question: nobody waits for it then.
    assert any("multilingual" in name for name in wiring.models())
    wiring.warm(Deadline.after(60))
    before = answers()
    assert [cited[0][:2] for cited in before] == ["d1", "d2", "d0"]
    stores, other = stores_of(wiring), wiring.encoder("all-MiniLM-L6-v2-onnx-int8")

    class Killed:
        model, dimension = other.model, other.dimension
        remaining = 0

        def embed_parts(self, texts: Any, parts: Any) -> Any:
            assert answers() == before
            if self.remaining == 0:
                raise Unavailable("killed")
            self.remaining -= 1
            return other.embed_parts(texts, parts)

    dense = Killed()
    for dense.remaining in (0, 1):  # before the first vector, and before they are exchanged
        with pytest.raises(Unavailable):
            reembed(stores, "default", dense, NullProgress())
    assert answers() == before
    assert reembed(stores, "default", other, NullProgress()) == len(TEXTS)
    assert answers() != before
    assert (
        wiring.search_index().info(Deadline.after(9.0), refresh=True).model_of("default")
        == other.model
    )
