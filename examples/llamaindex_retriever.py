"""DocsToKG RAG as a retriever of LlamaIndex.

pip install llama-index-core        # next to docstokg[client], and `docstokg serve` elsewhere
python examples/llamaindex_retriever.py "QUESTION" NAMESPACE http://127.0.0.1:8080
"""

import sys

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from docstokg.client import Client


class DocsToKGRetriever(BaseRetriever):
    """Returns whole passages, best first; `metadata` is the citation, hidden from models."""

    def __init__(self, client: Client, namespace: str = "default", top_k: int = 10) -> None:
        super().__init__()
        self._client, self._asked = client, {"namespace": namespace, "top_k": top_k}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        response = self._client.search(query_bundle.query_str, verbosity="full", **self._asked)
        nodes = []
        for citation in response.citations:
            about = citation.model_dump(mode="json", exclude={"full_text"})
            hidden = {f"excluded_{role}_metadata_keys": [*about] for role in ("llm", "embed")}
            text = citation.full_text or citation.snippet
            node = TextNode(id_=citation.uuid, text=text, metadata=about, **hidden)
            nodes.append(NodeWithScore(node=node, score=citation.score))
        return nodes


if __name__ == "__main__":
    question, namespace, url = sys.argv[1:]
    for scored in DocsToKGRetriever(Client(url), namespace).retrieve(question):
        print(scored.node.metadata["doc_id"], "-", scored.node.text[:80].replace("\n", " "))
