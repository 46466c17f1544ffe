"""langchain: k-NN and a match query on one OpenSearch index, joined by EnsembleRetriever."""

from collections.abc import Iterator
from typing import Any

from common import Ask, Task, embed, encode, main
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.vectorstores import OpenSearchVectorSearch
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever


class MiniLM(Embeddings):
    """The common encoder."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Encode passages."""
        return encode(texts).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """Encode a question."""
        return embed(text)


class Words(BaseRetriever):
    """Retriever with a match query; the library's BM25 retriever supports only another engine."""

    client: Any
    index: str
    depth: int

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        body = {"size": self.depth, "query": {"match": {"text": query}}}
        hits = self.client.search(index=self.index, body=body)["hits"]["hits"]
        return [
            Document(page_content=hit["_source"]["text"], metadata=hit["_source"]["metadata"])
            for hit in hits
        ]


def build(task: Task) -> Iterator[tuple[str, Ask]]:
    """Load, and yield ensembles of two depths."""
    name = f"langchain-{task.name}"
    store = OpenSearchVectorSearch(task.index_url, name, MiniLM(), engine="lucene")
    if store.index_exists():
        store.delete_index()
    store.create_index(384, index_name=name, engine="lucene", space_type="cosinesimil")
    store.add_embeddings(
        list(zip(task.texts, task.vectors.tolist(), strict=True)),
        metadatas=[{"doc_id": doc} for doc in task.ids],
        bulk_size=len(task.ids),
    )
    store.client.indices.refresh(index=name)
    for depth in (10, 50):
        both = [
            Words(client=store.client, index=name, depth=depth),
            store.as_retriever(search_kwargs={"k": depth}),
        ]
        ensemble = EnsembleRetriever(retrievers=both, weights=[0.5, 0.5])
        yield f"langchain EnsembleRetriever, {depth} each", asker(ensemble)


def asker(retriever: BaseRetriever) -> Ask:
    """Return a function that asks a retriever."""
    return lambda question: [document.metadata["doc_id"] for document in retriever.invoke(question)]


if __name__ == "__main__":
    main(build, "langchain-community", "langchain-classic")
