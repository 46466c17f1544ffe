"""Several writers of one graph: who waits for the other's locks tries again and loses nothing."""

from concurrent.futures import ThreadPoolExecutor

from docstokg.adapters.neo4j.writer import Neo4jGraphWriter
from docstokg.contracts.records import ChunkNode, MentionRecord
from docstokg.domain.identity import chunk_uuid
from tests.contract.real import neo4j_store
from tests.services import SERVICES

pytestmark = [*SERVICES]
NS = "default"
ENTITIES = [f"ent:{number:04}" for number in range(120)]
CHUNKS = 24


def write(writer: Neo4jGraphWriter, name: str, names: list[str]) -> None:
    """Mention everything, chunk by chunk in this order, all in one transaction."""
    ids = [f"{name}{number}" for number in range(CHUNKS)]
    nodes = [
        ChunkNode(uuid=chunk_uuid(NS, chunk_id), chunk_id=chunk_id, namespace=NS, doc_id=name)
        for chunk_id in ids
    ]
    writer.put_chunks(nodes)
    share = len(names) // CHUNKS
    writer.put_mentions(
        NS,
        {
            node.uuid: [
                MentionRecord(uuid=node.uuid, entity=entity)
                for entity in names[place * share : (place + 1) * share]
            ]
            for place, node in enumerate(nodes)
        },
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
