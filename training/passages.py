"""Store the passages that the built-in model gets for each question of a set.

    python -m training.passages FOLDER=STORE[:NAMESPACE]...

Writes FOLDER/given.jsonl: each line of FOLDER/answers.jsonl with `blocks` and `documents`.
"""

import argparse
import json
import os
from typing import Any

from benchmarks.loaded_sets import LoadedSet
from docstokg.contracts.state import Grounded
from docstokg.domain.answer import extractive
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.ground import handler
from docstokg_local.engine.workflow import LocalWorkflow

# More than the product reads, as some may be removed.
GIVEN = 15


def ask_all(loaded_set: LoadedSet) -> None:
    """Send a set's questions to its store and write the passages."""
    from docstokg_local.cli.question import submit

    url = f"sqlite:///{loaded_set.store.resolve()}"
    environment = {**os.environ, "DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
    grounded: list[Grounded] = []
    ground = handler.ground

    def keeping(*arguments: Any, **options: Any) -> Grounded:
        grounded.append(ground(*arguments, **options))
        return grounded[-1]

    vars(handler)["ground"] = keeping
    vars(extractive)["READ"] = GIVEN
    settings = Settings.from_environment(environment)
    workflow = LocalWorkflow(Wiring(settings, Telemetry(level="ERROR")))
    with (loaded_set.folder / "given.jsonl").open("w", encoding="utf-8") as file:
        for line in (loaded_set.folder / "answers.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            request = {
                "query": row["question"],
                "namespace": loaded_set.namespace,
                "synthesis": {"enabled": True, "model": extractive.MODEL},
                "budget": {"max_tokens_gen": 512, "timeout_s": 25},
                **({"filter": {"item": row["item"]}} if "item" in row else {}),
            }
            grounded.clear()
            submit(workflow, request)
            cited = {citation.rank: citation for citation in grounded[0].citations}
            row["blocks"] = [block.model_dump(mode="json") for block in grounded[0].blocks]
            row["documents"] = [cited[block.rank].doc_id for block in grounded[0].blocks]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    vars(handler)["ground"] = ground


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+", type=LoadedSet.read, metavar="FOLDER=STORE[:NAMESPACE]")
    for each in parser.parse_args().sets:
        ask_all(each)
