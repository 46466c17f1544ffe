"""Writes the list of admitted query texts after a real server has shown their plans."""

import json
import sys
from pathlib import Path

from docstokg.adapters.neo4j import cypher
from docstokg.adapters.neo4j import graph as adapter
from docstokg.adapters.neo4j.plan_guard import PlanVerdict
from docstokg.domain.deadline import Deadline
from tests.contract.real import neo4j_sides
from tests.jvm.servers import Engine
from tests.services import own_home, start_own

LIST = Path(adapter.__file__).with_name("admitted.json")


def admitted() -> dict[str, str]:
    """Name the hash of every text that requests may run."""
    return {template.name: template.digest for template in cypher.READS}


def main() -> int:
    """EXPLAIN every template against an empty database with our schema; write the list."""
    with own_home(Engine.NEO4J) as home:
        graph, writer = neo4j_sides(start_own(Engine.NEO4J, home))
        writer.close_load()
        verdicts: tuple[PlanVerdict, ...] = graph.warm(Deadline.after(180))
        graph.close()
        writer.close()
    refused = [verdict for verdict in verdicts if verdict.reasons]
    for verdict in refused:
        print(f"{verdict.template}: {'; '.join(verdict.reasons)}", file=sys.stderr)
    if not refused:
        LIST.write_text(json.dumps(admitted(), indent=2) + "\n", encoding="utf-8")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
