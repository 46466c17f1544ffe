"""Model servers on this machine; only `GET /v1/models` is requested."""

import json
from typing import NamedTuple

import urllib3

PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
REACH_S = 0.5
LONGEST_LIST = 200_000
OUR_OWN = "docstokg"


class LocalServer(NamedTuple):
    """A local server with the OpenAI API, and its models."""

    name: str
    base_url: str
    models: tuple[str, ...]


def local_servers(ports: dict[str, int] | None = None) -> list[LocalServer]:
    """Return the model servers on the well-known ports, without docstokg servers."""
    found = []
    with urllib3.PoolManager(retries=False, timeout=REACH_S) as pool:
        for name, port in (PORTS if ports is None else ports).items():
            address = f"http://127.0.0.1:{port}/v1"
            try:
                with pool.request("GET", f"{address}/models", preload_content=False) as reply:
                    body = reply.read(LONGEST_LIST)
                listed = json.loads(body)["data"]
                names = tuple(str(one["id"]) for one in listed if one.get("owned_by") != OUR_OWN)
            except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError, AttributeError):
                continue
            if names:
                found.append(LocalServer(name, address, names))
    return found
