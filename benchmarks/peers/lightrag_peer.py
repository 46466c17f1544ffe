"""LightRAG without a model: mode naive, and mode mix with the question as keywords."""

import asyncio
import logging
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
from common import Ask, Task, encode, main, tokenizer
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer, normalize_entity_name

logging.disable(logging.WARNING)
LOOP = asyncio.new_event_loop()
KNOWN: dict[str, Any] = {}
"""Vectors of passages while they are loaded, so that they are not encoded again."""


class WordPiece:
    """The encoder's tokenizer, instead of a table that the library would download."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids."""
        return list(tokenizer().encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens."""
        return str(tokenizer().decode(ids))

    def __deepcopy__(self, memo: object) -> "WordPiece":
        return self


async def vectors(texts: list[str], **_: object) -> Any:
    """Encode texts without a cached vector."""
    fresh = [text for text in texts if text not in KNOWN]
    encoded = dict(zip(fresh, encode(fresh), strict=True)) if fresh else {}
    return np.array([KNOWN[text] if text in KNOWN else encoded[text] for text in texts])


async def no_model(*_: object, **__: object) -> str:
    """Raise an error: no language model may be called."""
    raise RuntimeError("no model here")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the event loop of the stores, from any thread, and wait for it."""
    return asyncio.run_coroutine_threadsafe(work, LOOP).result()


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load into the library's default stores: files and memory."""
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    KNOWN.update(zip(task.texts, task.vectors, strict=True))
    rag = run(_loaded(task))
    KNOWN.clear()
    yield "LightRAG naive", asker(rag, "naive")
    if task.triples:
        yield "LightRAG mix, the question as keywords", asker(rag, "mix")


async def _loaded(task: Task) -> LightRAG:
    rag = LightRAG(
        working_dir=tempfile.mkdtemp(),
        llm_model_func=no_model,
        tokenizer=Tokenizer("wordpiece", WordPiece()),
        embedding_func=EmbeddingFunc(embedding_dim=384, max_token_size=256, func=vectors),
    )
    await rag.initialize_storages()
    relations, entities = [], {}
    for row in task.triples:
        # One empty normalised name, or one self-loop, makes the library reject the whole load.
        ends = [normalize_entity_name(str(row[side])) for side in ("subject", "object")]
        if all(ends) and ends[0] != ends[1]:
            doc, kind = str(row["doc_id"]), str(row["relation"]) or "related"
            entities |= dict.fromkeys(ends, doc)
            relations.append((*ends, kind, doc))
    await rag.ainsert_custom_kg(
        {
            "chunks": [
                {"content": text, "source_id": doc, "file_path": doc}
                for doc, text in zip(task.ids, task.texts, strict=True)
            ],
            "entities": [
                {"entity_name": name, "description": name, "source_id": doc, "file_path": doc}
                for name, doc in entities.items()
            ],
            "relationships": [
                {
                    "src_id": source,
                    "tgt_id": other,
                    "description": f"{source} {kind} {other}",
                    "keywords": kind,
                    "source_id": doc,
                    "file_path": doc,
                }
                for source, other, kind, doc in relations
            ],
        }
    )
    return rag


def asker(rag: LightRAG, mode: str) -> Ask:
    """Return a function that asks in a mode."""

    def ask_rag(question: str) -> list[str]:
        words = {"ll_keywords": [question], "hl_keywords": [question]} if mode != "naive" else {}
        wanted = QueryParam(mode=mode, enable_rerank=False, **words)
        answer = run(rag.aquery_data(question, wanted))
        return [chunk["file_path"] for chunk in answer["data"].get("chunks", [])]

    return ask_rag


if __name__ == "__main__":
    main(build, "lightrag-hku")
