"""LangChain's standard tests of retrievers, and the metadata; DOCSTOKG_URL is the service."""

import hashlib
import os
from typing import Any
from urllib.parse import parse_qs

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_docstokg import DocsToKGRetriever, SearchError
from langchain_tests.integration_tests import RetrieversIntegrationTests

URL = os.environ["DOCSTOKG_URL"]
QUESTION = "What are seizures?"


class TestStandard(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return DocsToKGRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"url": URL}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


async def test_metadata_names_the_place_of_the_passage() -> None:
    retriever = DocsToKGRetriever(url=URL, k=3, public_url="https://kb.example/")
    documents = retriever.invoke(QUESTION)
    assert await retriever.ainvoke(QUESTION) is not None
    assert [document.metadata["rank"] for document in documents] == [1, 2, 3]
    for document in documents:
        about = document.metadata
        assert hashlib.sha256(document.page_content.encode()).hexdigest() == about["text_sha256"]
        assert about["snippet"] in document.page_content and "page" in about
        assert about["char_end"] - about["char_start"] == len(about["snippet"])
        base, _, place = about["link"].partition("/#")
        assert base == "https://kb.example"
        assert parse_qs(place) == {
            "namespace": [about["namespace"]],
            "doc": [about["doc_id"]],
            "passage": [document.id],
            "span": [f"{about['char_start']}-{about['char_end']}"],
        }


def test_other_fields_of_the_request_are_sent() -> None:
    (first,) = DocsToKGRetriever(url=URL, k=1).invoke(QUESTION)
    chosen = {"filter": {"doc_id": [first.metadata["doc_id"]]}}
    documents = DocsToKGRetriever(url=URL, request=chosen).invoke(QUESTION)
    assert {document.metadata["doc_id"] for document in documents} == {first.metadata["doc_id"]}


def test_a_refusal_is_raised_with_the_service_reply() -> None:
    with pytest.raises(SearchError, match=r"400.*top_k"):
        DocsToKGRetriever(url=URL, k=0).invoke(QUESTION)
    with pytest.raises(SearchError, match="404"):
        DocsToKGRetriever(url=f"{URL}/elsewhere").invoke(QUESTION)
