"""Model servers on this machine (`GET /v1/models`)."""

from typing import Any, NamedTuple

from docstokg.adapters.exchange import exchanged, send
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import DocsToKGError

PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
REACH_S = 0.5
LONGEST_LIST = 200_000
OUR_OWN = "docstokg"


class LocalServer(NamedTuple):
    """A local server with the OpenAI API, and its models."""

    name: str
    base_url: str
    models: tuple[str, ...]


def local_servers() -> list[LocalServer]:
    """Return the reachable model servers on PORTS, without docstokg servers."""
    servers = []
    for name, port in PORTS.items():
        address = f"http://127.0.0.1:{port}/v1"
        try:
            listed = _listed(f"{address}/models", name)["data"]
            names = tuple(str(model["id"]) for model in listed if model.get("owned_by") != OUR_OWN)
        except (DocsToKGError, KeyError, TypeError, AttributeError):
            continue
        if names:
            servers.append(LocalServer(name, address, names))
    return servers


def _listed(url: str, name: str) -> Any:
    deadline = Deadline.after(REACH_S)
    _, _, body = exchanged(lambda: send("GET", url, deadline), name, deadline, LONGEST_LIST)
    return parsed(body, name)
