"""`docstokg doctor`."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from docstokg import __version__
from docstokg.contracts.language_models import EXTRACTIVE, SERVED
from docstokg.contracts.outline import SCANNED
from docstokg.contracts.records import IndexInfo, Scope
from docstokg.domain.answer.prompt import chat
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Refused, Timeout
from docstokg.loading.run.restoring import unrestorable
from docstokg.loading.transfer.contents import digests
from docstokg.ports import encoder_of
from docstokg.settings import PARTS, SECRETS, Settings, variable
from docstokg.usecases.run import beginning
from docstokg.usecases.verification import Claim, verify
from docstokg.wiring import Wiring, sqlite_path
from docstokg_local.cli.local_models import LocalServer, local_servers
from docstokg_local.cli.printing import echo

REACH_S = 5.0
# Minimum time for a test call; the server may have to load the model first.
LEAST_MODEL_S = 20.0

# Includes tokens for reasoning models.
SMALL_ANSWER_TOKENS = 256

MODELS_SHOWN = 5
SECRET_SHOWN = "(set)"  # noqa: S105 (what is shown instead of one)
KNOWN_SOURCE = "The bridge was opened in 1932. It is 503 metres long and has eight lanes."
# A true and a false claim about `KNOWN_SOURCE`.
KNOWN_CLAIMS = ("The bridge was opened in 1932.", "The bridge was opened in 1955.")
LOAD_HINT = "load something: docstokg load FOLDER, or docstokg demo"
RESTORE_HINT = "load their files from sources/NAMESPACE/ (docs/operations.md)"


# State, message and remedy of a part.
type Verdict = tuple[str, str] | tuple[str, str, str]


class Diagnosis(NamedTuple):
    """State of one part: good, missing (a fault) or off (not configured, which is no fault)."""

    part: str
    state: str
    message: str
    remedy: str = ""


def examine(wiring: Wiring, *, check: bool = False) -> list[Diagnosis]:
    """Check every part, without changes or downloads; product errors become `missing`.

    `check`: also make a small call to every configured language model and the verifier.
    """
    diagnoses = []
    for part, look in LOOKS.items():
        try:
            verdict = look(wiring)
        except DocsToKGError as wrong:
            verdict = "missing", str(wrong), _remedy(part, wiring.settings, wrong)
        diagnoses.append(Diagnosis(part, *verdict))
    diagnoses += [_running(server) for server in local_servers()]
    if check:
        diagnoses += [_answer_of(wiring, model) for model in _models_in_use(wiring)]
        diagnoses += _opinions_of(wiring)
    return diagnoses


def _index(wiring: Wiring) -> Verdict:
    url = wiring.settings.index_url
    if absent := _absent(url):
        return absent
    info = wiring.search_index().info(Deadline.after(REACH_S))
    model = info.embedding_model or "none"
    message = f"{url}: {info.chunks:,} chunks, {info.facts:,} facts, vectors {model}"
    if warnings := info.warnings_of(sorted(info.unfinished)):
        return "missing", message, " ".join(warnings)
    if info.chunks == 0:
        return "missing", message, LOAD_HINT
    return "good", message


def _absent(url: str) -> Verdict | None:
    if (path := sqlite_path(url)) is None or path.exists():
        return None
    return "missing", f"{path} does not exist", LOAD_HINT


def _graph(wiring: Wiring) -> Verdict:
    settings = wiring.settings
    if not settings.kg_enabled:
        return "off", "KG_ENABLED is false"
    if absent := _absent(settings.graph_url):
        return absent
    graph = wiring.knowledge_graph()
    info = graph.info(Deadline.after(REACH_S))
    message = (
        f"{settings.graph_url}: {info.entities:,} entities, {info.relations:,} relations, "
        f"{info.mentions:,} mentions in {info.chunks:,} chunks"
    )
    warm = getattr(graph, "warm", None)  # checks the query plans of a server
    verdicts = (warm() if callable(warm) else None) or ()
    refused = [
        f"{verdict.template}: {verdict.reasons[0]}" for verdict in verdicts if verdict.reasons
    ]
    if refused:
        remedy = "load into it with this version to update its schema"
        return "missing", f"{message}; plans refused: {'; '.join(refused)}", remedy
    plans = f", {len(verdicts)} query plans admitted" if verdicts else ""
    return "good", message + plans


def _embedder(wiring: Wiring) -> Verdict:
    chosen = wiring.settings.embed_provider
    if chosen == "none":
        return "off", "DOCSTOKG_EMBED_PROVIDER is none: word search only"
    embedder = wiring.embedder()
    if embedder is None:
        message = f"{chosen}: its model files or packages are missing"
        return "missing", message, _remedy("embedder", wiring.settings)
    message = f"{chosen}: {embedder.model}, {embedder.dimension} dimensions"
    try:
        info = wiring.search_index().info(Deadline.after(REACH_S))
    except DocsToKGError:
        info = IndexInfo()
    for name in info.namespaces:
        stored = info.model_of(name)
        if stored not in (None, embedder.model):
            contents = f"namespace {name} has vectors of {stored}"
            if encoder_of(embedder, stored) is None:
                remedy = f"install or configure that model again, or `docstokg reembed {name}`"
                return "missing", f"{message}, but {contents}", remedy
            message = f"{message}; {contents}"
    if chosen != "local":
        embedder.embed(["reachable?"], Deadline.after(REACH_S))
    return "good", message


def _sparse(wiring: Wiring) -> Verdict:
    if wiring.settings.sparse == "none":
        return "off", "DOCSTOKG_SPARSE is none"
    encoder = wiring.sparse_encoder()
    if encoder is None:
        remedy = _remedy("sparse encoder", wiring.settings)
        return "missing", "its weights are not installed", remedy
    return "good", encoder.model


def _reranker(wiring: Wiring) -> Verdict:
    if wiring.settings.rerank_provider == "none":
        return "off", "none configured (DOCSTOKG_RERANK_PROVIDER)"
    reranker = wiring.reranker()
    return "good", reranker.model if reranker else "none"


def _verifier(wiring: Wiring) -> Verdict:
    if (verifier := wiring.verifier()) is None:
        return "off", "none configured (DOCSTOKG_VERIFIER): only quotations are proven"
    if callable(warm := getattr(verifier, "warm", None)):
        warm()
    return "good", f"{verifier.name}, supported from {verifier.threshold:g}"


def _opinions_of(wiring: Wiring) -> list[Diagnosis]:
    if (verifier := wiring.verifier()) is None:
        return []
    begin = beginning(wiring.telemetry, REACH_S)
    call = begin("doctor", Scope(namespace="default", groups=None))
    claims = [Claim(claim, (KNOWN_SOURCE,)) for claim in KNOWN_CLAIMS]
    verification = verify(call, verifier, claims, Deadline.after(REACH_S))
    opinions = [
        f"{decision.verdict} ({decision.support:.2f})" if decision else "no opinion"
        for decision in verification.decisions
    ]
    message = (
        f"{verifier.name}: true claim {opinions[0]}, false claim {opinions[1]}, "
        f"{verification.took_ms:.0f} ms"
    )
    verdicts = [decision and decision.verdict for decision in verification.decisions]
    if verdicts == ["supported", "unsupported"]:
        return [Diagnosis("verifier", "good", message)]
    remedy = (
        "see the log for the cause" if verification.problem else "use another model or threshold"
    )
    return [Diagnosis("verifier", "missing", message, f"{remedy}; docs/models.md lists models")]


def _models_in_use(wiring: Wiring) -> tuple[str, ...]:
    chosen = wiring.settings
    fallback = (chosen.llm_fallback_model,) if chosen.llm_fallback_model else ()
    return wiring.model_access().remote(tuple(dict.fromkeys((*chosen.models, *fallback))))


def _models(wiring: Wiring) -> Verdict:
    settings, access = wiring.settings, wiring.model_access()
    names = _models_in_use(wiring)
    at = [f"{model} ({access.route(model).provider})" for model in names]
    if EXTRACTIVE in settings.models:
        at.append(f"{EXTRACTIVE} (here)")
    lacking = [model for model in settings.models if model not in (*names, EXTRACTIVE)]
    needs = sorted({access.route(model).missing or "" for model in lacking})
    message = ", ".join(at) or "none configured"
    if lacking:
        message += f"; not configured: {', '.join(lacking)} ({', '.join(needs)})"
    needs_litellm = any(access.route(model).provider not in SERVED for model in names)
    if needs_litellm and find_spec("litellm") is None:
        why = f"{message}; litellm-core is not installed"
        return "missing", why, "pip install 'docstokg[llm]'"
    if not at:
        return "missing", message, f"set {' or '.join(needs)}"
    return "good", message


def _running(server: LocalServer) -> Diagnosis:
    names = ", ".join(server.models[:MODELS_SHOWN])
    message = f"{server.name} answers at {server.base_url}: {names}"
    remedy = (
        f"to use it: docstokg ask --synthesize auto, or DOCSTOKG_LLM_BASE_URL={server.base_url} "
        f"DOCSTOKG_MODELS=gateway/{server.models[0]},{EXTRACTIVE}"
    )
    return Diagnosis("model server", "good", message, remedy)


def _answer_of(wiring: Wiring, model: str) -> Diagnosis:
    part, port = f"model {model}", wiring.language_model()
    try:
        # Loading the client takes seconds and is not part of the model's time.
        if callable(warm := getattr(port, "warm", None)):
            warm()
        begun = time.perf_counter()
        answer = port.complete(
            chat("You answer in one word.", "Reply with the word ready."),
            model=model,
            temperature=0.0,
            max_tokens=SMALL_ANSWER_TOKENS,
            deadline=Deadline.after(max(LEAST_MODEL_S, wiring.settings.max_timeout_s)),
        )
    except DocsToKGError as wrong:
        return Diagnosis(part, "missing", str(wrong), "docs/models.md explains each cause")
    took_s = time.perf_counter() - begun
    message = " ".join(answer.text.split())[:40]
    price = f", {answer.cost_usd:.6f} USD" if answer.cost_usd else ""
    return Diagnosis(part, "good", f"answered {message!r} in {took_s:.1f} s{price}")


def _cache(wiring: Wiring) -> Verdict:
    place = folder = wiring.cache_folder()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK):
        return "missing", f"{folder} is not writable", "set DOCSTOKG_CACHE_DIR"
    return "good", str(folder)


def _scans(_: Wiring) -> Verdict:
    if find_spec("rapidocr") is None:
        return "off", SCANNED, "pip install 'docstokg[ocr]'"
    return "good", f"rapidocr {version('rapidocr')}"


def _restore(wiring: Wiring) -> Verdict:
    if (url := wiring.settings.ingest_url) is None:
        return "off", "DOCSTOKG_INGEST_URL is not set"
    register, objects = wiring.register(), wiring.object_store()
    counts = {name: unrestorable(name, register, objects) for name in register.namespaces()}
    if lacking := ", ".join(f"{name} ({count:,})" for name, count in counts.items() if count):
        return "missing", f"documents not in {url}: {lacking}", RESTORE_HINT
    return "good", f"{url} has every document"


LOOKS: dict[str, Callable[[Wiring], Verdict]] = {
    "index": _index, "graph": _graph, "embedder": _embedder, "sparse encoder": _sparse,
    "reranker": _reranker, "verifier": _verifier, "language models": _models,
    "scanned pages": _scans, "cache": _cache, "restore": _restore,
}  # fmt: skip


_REMEDIES = {
    "embedder": "check DOCSTOKG_EMBED_BASE_URL, DOCSTOKG_EMBED_MODEL and DOCSTOKG_EMBED_API_KEY",
    "sparse encoder": "docstokg models, and pip install 'docstokg[local]' (make demo does both)",
}


def _remedy(part: str, settings: Settings, wrong: DocsToKGError | None = None) -> str:
    if part in ("index", "graph"):
        name = f"DOCSTOKG_{part.upper()}"
        if isinstance(wrong, Timeout):
            return f"slow or frozen: try again, then check the load of the server at {name}_URL"
        if isinstance(wrong, Refused):
            return f"check {name}_USER and {name}_PASSWORD"
        return f"check {name}_URL, and that the server runs"
    local = part == "embedder" and settings.embed_provider == "local"
    usual = "check the setting: docstokg doctor --settings"
    return _REMEDIES.get("sparse encoder" if local else part, usual)


def report(wiring: Wiring, *, check: bool = False) -> bool:
    """Print the state of each part; return whether no configured part is missing."""
    from rich.markup import escape

    from docstokg_local.cli.display import screen

    out = screen()
    diagnoses = examine(wiring, check=check)
    marks = {"good": "[green]ok     [/]", "missing": "[red]missing[/]", "off": "[dim]off    [/]"}
    out.print(f"docstokg {__version__}, Python {sys.version.split()[0]}", style="bold")
    for diagnosis in diagnoses:
        out.print(f"{marks[diagnosis.state]} {diagnosis.part:<16} {escape(diagnosis.message)}")
        if diagnosis.remedy:
            out.print(f"        {'':<16} -> {escape(diagnosis.remedy)}", style="yellow")
    return all(diagnosis.state != "missing" for diagnosis in diagnoses)


def show_settings(settings: Settings) -> None:
    """Print every setting with its environment variable; secrets as set or not set."""
    from docstokg_local.cli.settings_page import descriptions

    texts = descriptions()
    for part in PARTS:
        echo(f"# {part.__doc__}")
        for field in part.model_fields:
            value = getattr(settings, field)
            if field in SECRETS:
                value = SECRET_SHOWN if value else None
            elif isinstance(value, tuple):
                value = ",".join(map(str, value))
            echo(f"{variable(field)}={'' if value is None else value}  # {texts[field]}")


def show_digest(wiring: Wiring, namespaces: Iterable[str]) -> None:
    """Print one digest per store over these (default: all) namespaces, then one of both."""
    chosen = sorted(set(namespaces)) or _namespaces(wiring)
    index, graph, both = digests(
        wiring.index_writer(), wiring.graph_writer(), wiring.register(), chosen
    )
    echo(f"index {index}\ngraph {graph}\ndigest {both}")


def _namespaces(wiring: Wiring) -> list[str]:
    names = {
        *wiring.search_index().info(Deadline.after(REACH_S)).namespaces,
        *wiring.knowledge_graph().info(Deadline.after(REACH_S)).namespaces,
    }
    return sorted(names) or ["default"]
