"""Several writers of one graph: who waits for the other's locks tries again and loses nothing."""

from concurrent.futures import ThreadPoolExecutor

from docstokg.adapters.neo4j.writer import Neo4jGraphWriter
from tests.contract.real import neo4j_store
from tests.contract.test_knowledge_graph import chunk, mention, put_mentions
from tests.services import SERVICES

pytestmark = [*SERVICES]
NS = "default"
ENTITIES = [f"ent:{number:04}" for number in range(120)]
CHUNKS = 24


def write(writer: Neo4jGraphWriter, name: str, names: list[str]) -> None:
    """Mention everything, chunk by chunk in this order, all in one transaction."""
    ids = [f"{name}{number}" for number in range(CHUNKS)]
    writer.put_chunks([chunk(chunk_id, name) for chunk_id in ids])
    share = len(names) // CHUNKS
    put_mentions(
        writer, *(mention(ids[place // share], entity) for place, entity in enumerate(names))
    )


def test_writers_of_the_same_nodes_both_succeed() -> None:
    with neo4j_store() as (_, writer):
        writer.close_load()  # the layout is there
        backwards = ENTITIES[::-1]
        rounds = 0
        with ThreadPoolExecutor(4) as pool:
            # Whether two meet is chance: on a busy machine they may take turns for a while.
            while rounds < 12 or (not writer.deadlocks and rounds < 120):
                begun = [
                    pool.submit(write, writer, f"{round_}-{side}-", names)
                    for round_ in range(rounds, rounds + 12)
                    for side, names in enumerate((ENTITIES, backwards))
                ]
                for task in begun:
                    task.result()
                rounds += 12
        writer.close_load()
        counted = {row.id: row.mentions for row in writer.most_mentioned(NS, 1000)}
        assert counted == dict.fromkeys(ENTITIES, 2 * rounds)
        assert writer.deadlocks > 0
