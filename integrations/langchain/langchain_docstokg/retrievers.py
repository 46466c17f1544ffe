"""Retriever on `POST /v1/search`."""

from typing import Any
from urllib.parse import urlencode

import httpx
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import SecretStr


class SearchError(RuntimeError):
    """The service refused or failed; the message has its status and reply."""


class DocsToKGRetriever(BaseRetriever):
    """Return whole passages, best first; `metadata` is the citation and a link to the passage."""

    url: str = "http://127.0.0.1:8080"
    """Address of the service, without /v1"""
    api_key: SecretStr | None = None
    """API key or bearer token"""
    namespace: str | None = None
    """Namespace; None: the service's default for the caller"""
    k: int = 10
    """Number of passages"""
    request: dict[str, Any] = {}
    """Other fields of the search request, for example `filter`"""
    timeout_s: float = 15.0
    """Maximum seconds for a call"""
    public_url: str | None = None
    """Address of the service's page in links, if it differs from `url`"""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        with httpx.Client(timeout=self.timeout_s) as client:
            return self._documents(client.post(**self._search(query, k)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        async with httpx.AsyncClient(timeout=self.timeout_s) as client:
            return self._documents(await client.post(**self._search(query, k)))

    def _search(self, query: str, k: int | None) -> dict[str, Any]:
        fields = {"query": query, "top_k": self.k if k is None else k, "verbosity": "full"}
        if self.namespace is not None:
            fields["namespace"] = self.namespace
        headers = {}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key.get_secret_value()}"
        url = f"{self.url.rstrip('/')}/v1/search"
        return {"url": url, "json": {**self.request, **fields}, "headers": headers}

    def _documents(self, response: httpx.Response) -> list[Document]:
        if response.status_code != httpx.codes.OK:
            reply = response.text[:2000]
            raise SearchError(f"{response.url} returned {response.status_code}: {reply}")
        body = response.json()
        namespace = body["metadata"]["namespace"]
        return [self._document(citation, namespace) for citation in body["citations"]]

    def _document(self, citation: dict[str, Any], namespace: str) -> Document:
        text = citation.pop("full_text") or citation["snippet"]
        namespace = citation.get("namespace") or namespace
        span = f"{citation['char_start']}-{citation['char_end']}"
        place = {"doc": citation["doc_id"], "passage": citation["uuid"], "span": span}
        page = (self.public_url or self.url).rstrip("/")
        link = f"{page}/#{urlencode({'namespace': namespace, **place})}"
        metadata = {**citation, "namespace": namespace, "link": link}
        return Document(text, id=citation["uuid"], metadata=metadata)
