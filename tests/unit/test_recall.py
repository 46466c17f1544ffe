"""A stored response is found again only while everything it rests on is the same."""

import json

import pytest

from docstokg.contracts.envelope import Caller
from docstokg.contracts.records import IndexInfo
from docstokg.contracts.state import CachePlan, Plan, Recalled
from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.usecases.run import Run
from docstokg_functions.retrieve.recall import recall
from tests.contract.embedded import EmbeddedIndex
from tests.plans import logging, plan

NOTHING = Recalled(namespace="default")
STORES = ("sqlite:///a", "docstokg", "sqlite:///a", "neo4j")
PLAN = plan("abc", top_k=10, cache=CachePlan(key="k", request_hash="h"))


def choosing(*namespaces: str) -> Plan:
    """Return the plan of a request that names none of these granted namespaces."""
    return PLAN.model_copy(update={"cache": None, "choices": namespaces})


class Kept:
    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, str]] = {}

    def get(self, key, deadline):
        return self.rows.get(key)

    def put(self, key, request_hash, body, ttl_s, deadline):
        self.rows[key] = (request_hash, body)


@pytest.fixture
def index() -> EmbeddedIndex:
    index = EmbeddedIndex()
    index.open_load("run", None, None, None)
    index.close_load()
    return index


def recall_of(index, store, plan=PLAN, stores=STORES) -> Recalled:
    return recall(
        Run.of({"plan": plan.model_dump()}, logging()),
        index=index,
        response_cache=lambda: store,
        stores=stores,
    )


def stored(index, store) -> None:
    place = recall_of(index, store).cache
    assert place is not None
    body = json.dumps({"query": "abc", "diagnostics": {"cache_hit": False}})
    store.put(place.key, place.request_hash, body, 10, Deadline.after(1))


def test_keys_replay_their_body_and_refuse_other_requests(index) -> None:
    store = Kept()
    stored(index, store)
    reply = recall_of(index, store).reply
    assert reply is not None
    assert json.loads(reply.body)["diagnostics"]["cache_hit"] is True
    other = PLAN.model_copy(update={"cache": CachePlan(key="k", request_hash="i")})
    refused = recall_of(index, store, other).failure
    assert refused is not None
    assert (refused.status, refused.code) == (409, "cache_key_reused")
    # Nobody else finds it: another key, and the same key over another store.
    foreign = {"cache": CachePlan(key="l", request_hash="h")}
    for changes in (foreign, {"namespace": "other"}, {"others": ("other",)}):
        assert recall_of(index, store, PLAN.model_copy(update=changes)).reply is None
    for place in range(4):
        stores = [*STORES[:place], "other", *STORES[place + 1 :]]
        assert recall_of(index, store, stores=stores).reply is None


def test_a_load_or_a_removal_makes_it_forgotten(index) -> None:
    store = Kept()
    stored(index, store)
    index.open_load("again", None, None, None)
    assert recall_of(index, store) == NOTHING
    index.close_load()
    after = recall_of(index, store)
    assert after.reply is None
    assert after.cache is not None


def test_a_dead_cache_or_index_costs_nothing(index) -> None:
    class Dead:
        def get(self, key, deadline):
            raise Unavailable("no cache")

        def generation(self, namespaces, deadline):
            raise Unavailable("no index")

    assert recall_of(index, Dead()) == NOTHING
    assert recall_of(Dead(), Kept()) == NOTHING
    assert recall_of(index, Kept(), PLAN.model_copy(update={"cache": None})) == NOTHING


class Filled:
    """An index of these namespaces, or one that cannot be read."""

    def __init__(self, *namespaces: str, broken: bool = False) -> None:
        self.namespaces, self.broken, self.read = namespaces, broken, 0

    def info(self, deadline: Deadline) -> IndexInfo:
        self.read += 1
        if self.broken:
            raise Unavailable("no index")
        return IndexInfo(namespaces=self.namespaces)


@pytest.mark.parametrize(
    ("granted", "filled", "chosen"),
    [
        (["*"], ["alpha", "default"], "default"),
        (["*"], ["alpha"], "alpha"),
        (["*"], [], "default"),
        (["*"], ["beta", "alpha"], ["alpha", "beta"]),
        (["alpha", "default"], ["alpha", "beta", "default"], "default"),
        (["alpha", "default"], ["alpha", "beta"], "alpha"),
        (["alpha", "default"], ["beta"], "default"),
        (["alpha", "gamma"], ["alpha", "beta", "default"], "alpha"),
        (["alpha", "gamma"], ["default"], "alpha"),
        (["alpha", "gamma"], ["alpha", "beta", "gamma"], ["alpha", "gamma"]),
    ],
)
def test_the_namespace_of_a_request_that_names_none(granted, filled, chosen) -> None:
    recalled = recall_of(Filled(*filled), Kept(), choosing(*granted))
    if isinstance(chosen, str):
        assert recalled == Recalled(namespace=chosen)
        return
    assert recalled.failure is not None
    assert (recalled.failure.status, recalled.failure.code) == (400, "namespace_required")
    assert recalled.failure.detail.endswith(f": {', '.join(chosen)}.")


def test_a_list_of_namespaces_has_an_end() -> None:
    filled = Filled(*(f"n{n:02}" for n in range(30)))
    failure = recall_of(filled, Kept(), choosing("*")).failure
    assert failure is not None
    assert failure.detail.endswith(", n18, n19 and 10 more.")


def test_without_an_index_only_a_single_grant_decides() -> None:
    def recalled_for(*granted: str) -> Recalled:
        return recall_of(Filled(broken=True), Kept(), choosing(*granted))

    assert recalled_for("*") == recalled_for("alpha", "default") == Recalled(namespace="default")
    assert recalled_for("alpha", "beta").failure is not None


def test_a_single_granted_namespace_needs_no_index_read() -> None:
    index = Filled("alpha", "default")
    run = Run.of({"plan": PLAN.model_dump()}, logging())
    for granted, chosen in ((("alpha",), "alpha"), (("alpha", "alpha"), "alpha"), ((), "default")):
        assert run.chosen_namespace(Caller(sub="s", namespaces=granted), index) == chosen
    assert index.read == 0
