"""DocsToKG RAG as a LangChain retriever."""

from langchain_docstokg.retrievers import DocsToKGRetriever, SearchError

__all__ = ["DocsToKGRetriever", "SearchError"]
