"""`load --extract`: model and prompt."""

import sys
from collections.abc import Callable
from functools import partial

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.errors import Misconfigured
from docstokg.loading.context import Context, ExtractionReport
from docstokg.loading.names.extraction import Estimate, Extraction, extract
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import agreed, echo


def extractor_of(
    wiring: Wiring, model: str, restricted: bool, yes: bool
) -> Callable[[Context], ExtractionReport]:
    """Return the function that extracts a load's triples.

    Raises `Misconfigured` for `extractive` or a model that is not configured.
    """
    if model == EXTRACTIVE:
        raise Misconfigured(f"{EXTRACTIVE!r} cannot extract relations; choose a language model")
    route = wiring.model_access().route(model)
    if (setting := route.missing) is not None:
        raise Misconfigured(f"no language model is configured for {model!r}; set {setting}")
    address = route.base_url or f"{route.provider}'s own address"
    extraction = Extraction(
        model=model,
        language_model=wiring.language_model(),
        replies=wiring.reply_store(),
        agree=partial(agree_to_send, address=address, yes=yes),
        restricted=restricted,
    )
    return partial(extract, chosen=extraction)


def agree_to_send(estimate: Estimate, *, address: str, yes: bool) -> bool:
    """Print the data to be sent and its cost; with `yes` return True, else ask.

    False without a terminal.
    """
    echo(f"data to send to {estimate.model} at {address}:", err=True)
    size = f"{estimate.chunks:,} passages, {estimate.characters:,} characters"
    tokens = f"{estimate.tokens_in:,} tokens with the instructions"
    echo(f"  {size}: about {tokens}, up to {estimate.tokens_out:,} back", err=True)
    if estimate.cached:
        echo(f"  {estimate.cached:,} more passages have stored replies and are not sent", err=True)
    if estimate.restricted:
        cure = "--include-restricted sends them"
        echo(f"  {estimate.restricted:,} passages with an acl are not sent ({cure})", err=True)
    cost = "unknown" if estimate.cost_usd is None else f"about {estimate.cost_usd:,.4f} USD"
    echo(f"  cost by the model's list price: {cost}", err=True)
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        echo("no terminal for a prompt; use --yes to send the passages", err=True)
        return False
    return agreed("Send them?")
