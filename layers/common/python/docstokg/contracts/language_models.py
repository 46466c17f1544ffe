"""Language models: provider, API key, context size and price of a model name.

`openai/...`, `anthropic/...`, `bedrock/...` and `gateway/...` (DOCSTOKG_LLM_BASE_URL) select the
provider. Other names go to OpenAI or Anthropic for their models with a key, else to the gateway,
else to the model's maker.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from docstokg.contracts.model import Contract

Provider = Literal["openai", "anthropic", "bedrock", "gateway"]

# Providers with OpenAI's format.
SERVED: tuple[Provider, ...] = ("openai", "gateway")

# Built-in model that quotes sentences of the sources and needs no network.
EXTRACTIVE = "extractive"

# Default models on Bedrock; Amazon's own need no subscription.
BEDROCK_EMBEDDER, BEDROCK_RERANKER = "amazon.titan-embed-text-v2:0", "amazon.rerank-v1:0"

_PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "bedrock", "gateway")
_MAKERS: tuple[tuple[Provider, re.Pattern[str]], ...] = (
    ("openai", re.compile(r"(?:gpt-|chatgpt-|o\d)")),
    ("anthropic", re.compile(r"claude-")),
)
# Names of the default list for which the provider requires a dated name.
_DATED = {"claude-3-haiku": "claude-3-haiku-20240307"}


class ModelFacts(Contract):
    """Context size in tokens, and price in US dollars per million tokens."""

    context_tokens: int | None = None
    dollars_in: float = 0.0
    dollars_out: float = 0.0


# Retired by its maker and missing in the pinned table, but gateways and Bedrock still serve it.
_FACTS = {
    "claude-3-haiku-20240307": ModelFacts(context_tokens=200_000, dollars_in=0.25, dollars_out=1.25)
}


class ModelRoute(Contract):
    """Address of a model; `name`: model name at the provider."""

    provider: Provider
    name: str
    base_url: str | None = None
    api_key: str | None = None

    @property
    def missing(self) -> str | None:
        """Return the required setting that is missing, or None."""
        if self.provider == "gateway":
            return None if self.base_url else "DOCSTOKG_LLM_BASE_URL"
        if self.provider == "bedrock" or self.api_key:
            return None
        return f"DOCSTOKG_{self.provider.upper()}_API_KEY"


class ModelAccess(Contract):
    """Configuration of all providers.

    `base_url`: OpenAI-compatible API of the gateway. `api_key`: its key; without `base_url`, the
    key of providers that have none. `facts`: the operator's model table.
    """

    base_url: str | None = None
    api_key: str | None = None
    openai_api_key: str | None = None
    anthropic_api_key: str | None = None
    provider_urls: Mapping[str, str] = {}
    facts: Mapping[str, ModelFacts] = {}

    def route(self, model: str) -> ModelRoute:
        """Return the route of a model, even if a setting is missing."""
        provider, name = self._provider(model)
        name = _DATED.get(name, name) if provider == "anthropic" else name
        if provider == "gateway":
            base_url, key = self.base_url, self.api_key
        else:
            shared = self.api_key if self.base_url is None and provider != "bedrock" else None
            base_url, key = self.provider_urls.get(provider), self._own_key(provider) or shared
        return ModelRoute(provider=provider, name=name, base_url=base_url, api_key=key)

    def _own_key(self, provider: Provider) -> str | None:
        return {"openai": self.openai_api_key, "anthropic": self.anthropic_api_key}.get(provider)

    def remote(self, models: Sequence[str]) -> tuple[str, ...]:
        """Return the remote models among `models` whose settings are complete."""
        return tuple(
            model for model in models if model != EXTRACTIVE and self.route(model).missing is None
        )

    def facts_of(self, model: str) -> ModelFacts | None:
        """Return the facts of a model from the operator's or the built-in table, or None."""
        name = self.route(model).name
        listed = _FACTS.get(_DATED.get(name, name))
        return self.facts.get(model) or self.facts.get(name) or listed

    def _provider(self, model: str) -> tuple[Provider, str]:
        prefix, slash, model_name = model.partition("/")
        if slash and (named := [provider for provider in _PROVIDERS if provider == prefix]):
            return named[0], model_name
        maker = next((provider for provider, pattern in _MAKERS if pattern.match(model)), None)
        if maker is not None and (self._own_key(maker) or self.base_url is None):
            return maker, model
        return "gateway", model


def facts_table(lines: Sequence[str]) -> dict[str, ModelFacts]:
    """Parse lines `NAME=TOKENS` or `NAME=TOKENS/IN/OUT` (dollars per million tokens).

    Raise ValueError with the first invalid line.
    """
    table = {}
    for line in lines:
        name, _, fields = line.rpartition("=")
        parts = fields.split("/")
        if not name or len(parts) not in (1, 3):
            raise ValueError(f"{line!r} is neither NAME=TOKENS nor NAME=TOKENS/IN/OUT")
        try:
            prices = [float(part) for part in parts[1:]] or [0.0, 0.0]
            table[name] = ModelFacts(
                context_tokens=int(parts[0]), dollars_in=prices[0], dollars_out=prices[1]
            )
        except ValueError as exc:
            raise ValueError(f"{line!r}: {fields!r} contains an invalid number") from exc
    return table
