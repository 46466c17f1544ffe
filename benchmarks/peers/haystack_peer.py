"""haystack: BM25 and embedding retrievers over OpenSearch, joined."""

from collections.abc import Iterator

from common import Ask, Task, embed, main
from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.document_stores.types import DuplicatePolicy
from haystack_integrations.components.retrievers.opensearch import (
    OpenSearchBM25Retriever,
    OpenSearchEmbeddingRetriever,
)
from haystack_integrations.document_stores.opensearch import OpenSearchDocumentStore


@component
class MiniLM:
    """The common encoder."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Encode a question."""
        return {"embedding": embed(text)}


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load, and yield one pipeline per join mode."""
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    store = OpenSearchDocumentStore(
        hosts=task.index_url, index=f"haystack-{task.name}", embedding_dim=384, method=method
    )
    documents = [
        Document(content=text, meta={"doc_id": doc}, embedding=vector.tolist())
        for doc, text, vector in zip(task.ids, task.texts, task.vectors, strict=True)
    ]
    store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)
    for depth, joined in ((10, "reciprocal_rank_fusion"), (50, "distribution_based_rank_fusion")):
        yield f"haystack, {joined}, {depth} each", asker(pipeline(store, depth, joined))


def pipeline(store: OpenSearchDocumentStore, depth: int, joined: str) -> Pipeline:
    """Return a pipeline of encoder, both retrievers and the joiner."""
    pipeline = Pipeline()
    pipeline.add_component("embed", MiniLM())
    pipeline.add_component("bm25", OpenSearchBM25Retriever(document_store=store, top_k=depth))
    pipeline.add_component("dense", OpenSearchEmbeddingRetriever(document_store=store, top_k=depth))
    pipeline.add_component("join", DocumentJoiner(join_mode=joined, top_k=10))
    pipeline.connect("embed.embedding", "dense.query_embedding")
    pipeline.connect("bm25", "join")
    pipeline.connect("dense", "join")
    return pipeline


def asker(pipeline: Pipeline) -> Ask:
    """Return a function that asks a pipeline."""

    def ask_pipeline(question: str) -> list[str]:
        ran = pipeline.run({"embed": {"text": question}, "bm25": {"query": question}})
        return [document.meta["doc_id"] for document in ran["join"]["documents"]]

    return ask_pipeline


if __name__ == "__main__":
    main(build, "haystack-ai", "opensearch-haystack")
