"""A stored response is found again only while everything it rests on is the same."""

import json

import pytest

from docstokg.contracts.state import CachePlan, Recalled
from docstokg.errors import Unavailable
from docstokg.observability import Telemetry
from docstokg.usecases.run import Run
from docstokg_functions.retrieve.recall import recall
from tests.contract.embedded import EmbeddedIndex
from tests.plans import plan

STORES = ("sqlite:///a", "docstokg", "sqlite:///a", "neo4j")
PLAN = plan("abc", top_k=10, cache=CachePlan(key="k", request_hash="h"))


class Kept:
    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, str]] = {}

    def get(self, key, timeout_s):
        return self.rows.get(key)

    def put(self, key, request_hash, body, ttl_s, timeout_s):
        self.rows[key] = (request_hash, body)


@pytest.fixture
def index() -> EmbeddedIndex:
    made = EmbeddedIndex()
    made.open_load("run", None, None, None)
    made.close_load()
    return made


def ask(index, kept, asked=PLAN, stores=STORES) -> Recalled:
    return recall(
        Run.of({"plan": asked.model_dump()}, Telemetry(write=lambda line: None)),
        index=index,
        response_cache=lambda: kept,
        stores=stores,
    )


def stored(index, kept) -> None:
    place = ask(index, kept).cache
    assert place is not None
    body = json.dumps({"query": "abc", "diagnostics": {"cache_hit": False}})
    kept.put(place.key, place.request_hash, body, 10, 1)


def test_the_same_key_gives_the_same_body_another_request_409(index) -> None:
    kept = Kept()
    stored(index, kept)
    reply = ask(index, kept).reply
    assert reply is not None
    assert json.loads(reply.body)["diagnostics"]["cache_hit"] is True
    assert PLAN.cache is not None
    other = PLAN.model_copy(update={"cache": PLAN.cache.model_copy(update={"request_hash": "i"})})
    refused = ask(index, kept, other).reply
    assert refused is not None
    assert refused.statusCode == 409
    # Nobody else finds it: another key, and the same key over another store.
    assert PLAN.cache is not None
    foreign = PLAN.model_copy(update={"cache": PLAN.cache.model_copy(update={"key": "l"})})
    assert ask(index, kept, foreign).reply is None
    for place in range(4):
        stores = [*STORES[:place], "other", *STORES[place + 1 :]]
        assert ask(index, kept, stores=stores).reply is None


def test_a_load_or_a_removal_makes_it_forgotten(index) -> None:
    kept = Kept()
    stored(index, kept)
    index.open_load("again", None, None, None)
    assert ask(index, kept) == Recalled()
    index.close_load()
    after = ask(index, kept)
    assert after.reply is None
    assert after.cache is not None


def test_a_dead_cache_or_index_costs_nothing(index) -> None:
    class Dead:
        def get(self, key, timeout_s):
            raise Unavailable("no cache")

        def generation(self, timeout_s):
            raise Unavailable("no index")

    assert ask(index, Dead()) == Recalled()
    assert ask(Dead(), Kept()) == Recalled()
    assert ask(index, Kept(), PLAN.model_copy(update={"cache": None})) == Recalled()
