"""Language models."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docstokg.adapters.exchange import NotAccepted
from docstokg.contracts.completion import Completion, ModelCall, ModelReply
from docstokg.contracts.language_models import SERVED, ModelAccess, ModelFacts, ModelRoute
from docstokg.domain.answer.notices import ONLY_REASONED
from docstokg.domain.answer.reply import ends_thought
from docstokg.domain.deadline import Deadline
from docstokg.errors import NotConfigured, Timeout, Unavailable, WrongAnswer
from docstokg.observability import note, traced

LONGEST_TEXT = 200_000
_MILLION = 1_000_000
_TABLE = "model_prices_and_context_window_backup.json"

# Gets a piece of text; returns whether to go on.
Write = Callable[[str], bool]


# Makes one call: route, call, name for errors, deadline, and the receiver of a streamed text.
Speak = Callable[[ModelRoute, ModelCall, str, Deadline, Write | None], ModelReply]


class LanguageModels:
    """A `LanguageModel`: calls go to `served` or, for the other providers, to `others`.

    `models`: configured names; `load`: prepares `others`.
    """

    def __init__(
        self,
        access: ModelAccess,
        served: Speak,
        others: Speak,
        load: Callable[[], None],
        models: Sequence[str] = (),
    ) -> None:
        self._access, self._served, self._others = access, served, others
        self._load, self._models, self._plain = load, models, set[str]()
        # Models that ended a thought which they had not begun.
        self._thinking = set[str]()
        self._facts = cache(self._model_facts)

    def warm(self) -> None:
        """Load the client if configured models need it."""
        routes = map(self._access.route, self._access.remote(self._models))
        if any(route.provider not in SERVED for route in routes):
            self._load()

    def context_tokens(self, model: str) -> int | None:
        """Return the context size of a model in tokens; None if unknown."""
        return self._facts(model).context_tokens

    def price(self, model: str) -> tuple[float, float] | None:
        """Return dollars per input and output token, by the operator's or litellm's list.

        None if unknown or free.
        """
        facts = self._facts(model)
        price = facts.dollars_in / _MILLION, facts.dollars_out / _MILLION
        return price if any(price) else None

    def complete(  # noqa: PLR0913 - one call with named arguments
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
        deadline: Deadline,
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], bool] | None = None,
    ) -> Completion:
        """Return one completion within `deadline`, including streaming.

        A call that a provider does not accept is repeated without `schema` and `temperature`, and
        later calls omit them. `on_text`: called with the text so far; False ends the call; texts
        of a model that once ended a thought without beginning it are "" until it ends the thought.
        A timeout or a broken connection after some streamed text cuts the text. Raise `Timeout`,
        `QuotaExceeded` (429), `NotConfigured` (no key), `NotInstalled`, `Refused` (401, 403),
        `Misconfigured` (other 4xx), `Unavailable` (unreachable, 5xx, redirects, broken off) or
        `WrongAnswer` (no completion, too long).
        """
        route = self._access.route(model)
        if (setting := route.missing) is not None:
            raise NotConfigured(f"no key or address is set for model {model} ({setting})")
        plain = ModelCall([dict(message) for message in messages], max_tokens)
        call = plain._replace(temperature=temperature, schema=schema)
        fields = {"model": model, "provider": route.provider, "max_tokens": max_tokens}
        with traced("chat", temperature=temperature, **fields):
            reply = self._replied(route, call, plain, model, deadline, on_text)
            completion = self._completion(reply, route, model)
            note(tokens_in=completion.tokens_in, tokens_out=completion.tokens_out)
        return completion

    def _replied(
        self,
        route: ModelRoute,
        call: ModelCall,
        plain: ModelCall,
        model: str,
        deadline: Deadline,
        on_text: Callable[[str], bool] | None,
    ) -> ModelReply:
        speak = self._served if route.provider in SERVED else self._others
        draft, whom = _Draft(on_text, is_held=model in self._thinking), f"model {model}"
        write = None if on_text is None else draft.add
        try:
            wanted = plain if model in self._plain else call
            try:
                return speak(route, wanted, whom, deadline, write)
            except NotAccepted:
                reply = speak(route, plain, whom, deadline, write)
                self._plain.add(model)
                return reply
        except (Timeout, Unavailable) as broken:
            if not draft.text.strip():
                raise
            return ModelReply(draft.text, cut="time" if isinstance(broken, Timeout) else "broken")
        finally:
            draft.close()
            if ends_thought(draft.text):
                self._thinking.add(model)

    def _completion(self, reply: ModelReply, route: ModelRoute, model: str) -> Completion:
        if reply.is_reasoning and not reply.text.strip():
            raise WrongAnswer(ONLY_REASONED.format(model))
        tokens_in, tokens_out = _count(reply.tokens_in), _count(reply.tokens_out)
        facts = self._facts(model)
        dollars = (tokens_in * facts.dollars_in + tokens_out * facts.dollars_out) / _MILLION
        return Completion(
            cut=reply.cut,
            # Without lone surrogates and NUL, which some JSON readers reject.
            text=reply.text[:LONGEST_TEXT].encode(errors="ignore").decode().replace("\x00", ""),
            model=model,
            provider=route.provider,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=round(dollars, 8) if facts.dollars_in or facts.dollars_out else None,
        )

    def _model_facts(self, model: str) -> ModelFacts:
        if facts := self._access.facts_of(model):
            return facts
        spec, route = find_spec("litellm"), self._access.route(model)
        if spec is None or spec.origin is None:
            return ModelFacts()
        listed = json.loads(Path(spec.origin).with_name(_TABLE).read_bytes())
        names = (f"{route.provider}/{route.name}", route.name)
        row: Mapping[str, Any] = next((listed[name] for name in names if name in listed), {})
        return ModelFacts(
            context_tokens=_count(row.get("max_input_tokens")) or None,
            dollars_in=float(row.get("input_cost_per_token") or 0.0) * _MILLION,
            dollars_out=float(row.get("output_cost_per_token") or 0.0) * _MILLION,
        )


class _Draft:
    def __init__(self, on_text: Callable[[str], bool] | None, *, is_held: bool) -> None:
        self._told, self._is_open, self._is_held = on_text, True, is_held
        self.text = ""

    def add(self, piece: str) -> bool:
        if self._told is None or not self._is_open:
            return False
        self.text += piece
        self._is_held = self._is_held and not ends_thought(self.text)
        return len(self.text) <= LONGEST_TEXT and self._told("" if self._is_held else self.text)

    def close(self) -> None:
        self._is_open = False


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
