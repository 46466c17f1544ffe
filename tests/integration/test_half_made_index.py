"""A load that was killed while its indices were made is followed by one that mends them."""

import json
import threading

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.domain.deadline import Deadline
from tests.contract.real import request
from tests.contract.test_search_index import fact, seizure
from tests.services import SERVICES

pytestmark = [*SERVICES]
SPACE = ("model-a", 8, "sparse-a")


def load(url: str, name: str) -> tuple[int, int]:
    """Load like the pipeline and return the number of readable chunks."""
    index, writer = (
        OpenSearchIndex(url=url, name=name, info_ttl_s=0),
        OpenSearchWriter(url=url, name=name),
    )
    try:
        with writer.hold(30):
            writer.open_load("run-2", *SPACE)
            writer.put([(seizure("a"), "print")])
            writer.put_facts([fact("f", "seizure", "a")])
            writer.close_load()
        info = index.info(Deadline.after(30))
        return info.chunks, info.facts
    finally:
        index.close()
        writer.close()


@pytest.mark.parametrize("lost", ["chunks", "facts"])
def test_a_lost_index_is_created_beside_the_other(place: tuple[str, str], lost: str) -> None:
    url, name = place
    index, writer = OpenSearchIndex(url=url, name=name), OpenSearchWriter(url=url, name=name)
    try:
        writer.open_load("run-1", *SPACE)
        mapping = json.loads(request(url, "GET", f"/{name}-{lost}-*/_mapping"))
        (index_name,) = mapping
        request(url, "DELETE", f"/{index_name}")
        if lost == "facts":
            info = index.info(Deadline.after(30))
            assert (info.chunks, info.facts, info.unfinished) == (0, 0, {"": "run-1"})
    finally:
        index.close()
        writer.close()
    assert load(url, name) == (1, 1)
    again = json.loads(request(url, "GET", f"/{name}-{lost}-*/_mapping"))
    assert (
        again[index_name]["mappings"]["properties"] == mapping[index_name]["mappings"]["properties"]
    )


def test_a_load_waits_for_shards_not_yet_assigned(place: tuple[str, str]) -> None:
    url, name = place
    assert load(url, name) == (1, 1)
    (chunks,) = json.loads(request(url, "GET", f"/{name}/_alias"))

    rule = f"/{chunks}/_settings", "index.routing.allocation.require._name"
    request(url, "POST", f"/{chunks}/_close")
    request(url, "PUT", rule[0], {rule[1]: "nowhere"})
    request(url, "POST", f"/{chunks}/_open?wait_for_active_shards=0")
    later = threading.Timer(1.5, request, [url, "PUT", rule[0], {rule[1]: None}])
    later.start()
    try:
        writer = OpenSearchWriter(url=url, name=name)
        try:
            with writer.hold(30):
                assert len(writer.fingerprints("ns", [seizure("a").uuid])) == 1
        finally:
            writer.close()
    finally:
        later.join()
