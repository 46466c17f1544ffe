"""DocsToKG RAG as a retriever of LangChain.

pip install langchain-core docstokg        # and `docstokg serve` elsewhere
python examples/langchain_retriever.py "QUESTION" NAMESPACE http://127.0.0.1:8080
"""

import sys

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from docstokg.client import Client


class DocsToKGRetriever(BaseRetriever):
    """Returns whole passages, best first; `metadata` is the citation with its hash and offsets."""

    url: str
    api_key: str | None = None
    namespace: str = "default"
    top_k: int = 10

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = Client(self.url, api_key=self.api_key).search(
            query, namespace=self.namespace, top_k=self.top_k, verbosity="full"
        )
        return [
            Document(
                one.full_text or one.snippet,
                id=one.uuid,
                metadata=one.model_dump(mode="json", exclude={"full_text"}),
            )
            for one in found.citations
        ]


if __name__ == "__main__":
    question, namespace, url = sys.argv[1:]
    for document in DocsToKGRetriever(url=url, namespace=namespace).invoke(question):
        print(document.metadata["doc_id"], "-", document.page_content[:80].replace("\n", " "))
