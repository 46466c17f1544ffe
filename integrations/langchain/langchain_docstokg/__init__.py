"""DocsToKG RAG for LangChain."""

from langchain_docstokg.retrievers import DocsToKGRetriever, SearchError

__all__ = ["DocsToKGRetriever", "SearchError"]
