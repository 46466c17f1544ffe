"""llama-index: vector and text retrievers over OpenSearch, joined by QueryFusionRetriever."""

from collections.abc import Iterator
from typing import Any

from common import Ask, Task, embed, main
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.vector_stores.opensearch import OpensearchVectorClient, OpensearchVectorStore


class MiniLM(BaseEmbedding):
    """The common encoder."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return embed(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return embed(text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return embed(query)


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load, and yield fusions of two depths."""
    _store(task).clear()
    store = _store(task)
    store.add(
        [
            TextNode(id_=doc, text=text, embedding=vector.tolist())
            for doc, text, vector in zip(task.ids, task.texts, task.vectors, strict=True)
        ]
    )
    index = VectorStoreIndex.from_vector_store(store, embed_model=MiniLM())
    for depth in (10, 50):
        both = [
            index.as_retriever(similarity_top_k=depth, vector_store_query_mode=mode)
            for mode in ("default", "text_search")
        ]
        fusion = QueryFusionRetriever(
            both,
            llm=MockLLM(),
            num_queries=1,
            mode="reciprocal_rerank",
            similarity_top_k=10,
            use_async=False,
        )
        yield f"llama-index QueryFusionRetriever, {depth} each", asker(fusion)


def _store(task: Task) -> Any:
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    index = f"llamaindex-{task.name}"
    return OpensearchVectorStore(OpensearchVectorClient(task.index_url, index, 384, method=method))


def asker(fusion: QueryFusionRetriever) -> Ask:
    """Return a function that asks a retriever."""
    return lambda question: [scored_node.node.node_id for scored_node in fusion.retrieve(question)]


if __name__ == "__main__":
    main(build, "llama-index-core", "llama-index-vector-stores-opensearch")
