"""The `docstokg` command line."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from docstokg.errors import LoadError, Misconfigured
from docstokg_local.cli.entities import entities
from docstokg_local.cli.exit_codes import DONE, NOT_VERIFIED, finish, leave, run
from docstokg_local.cli.options import (
    Graph,
    Index,
    Namespace,
    NamespaceNamed,
    NamespaceOrNone,
    argument,
    check_namespace,
    flag,
    json_file,
    option,
    wiring_of,
)
from docstokg_local.cli.printing import counted, echo, print_json
from docstokg_local.cli.receipts import receipt_key
from docstokg_local.cli.stores import settings_of
from docstokg_local.cli.tracing import trace
from docstokg_local.cli.why_not import why_not

CITATIONS_SHOWN = 5

app = typer.Typer(
    name="docstokg",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    help="Answer questions with cited evidence.\n\n"
    "Start with: docstokg demo. Then: docstokg load FOLDER, docstokg ask 'QUESTION'.\n\n"
    "Exit codes: 0 success; 1 a rejected line, an unproven citation or a problem; 2 wrong usage "
    "or an unreadable file.",
)


def _version(is_set: bool) -> None:
    if is_set:
        from docstokg import __version__

        echo(f"docstokg {__version__}")
        raise typer.Exit(DONE)


@app.callback()
def _root(
    version: bool = flag(
        "--version", "Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    pass


@app.command()
def load(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    sources: Annotated[list[Path], argument("SOURCE...", "Files or folders.")],
    namespace: Namespace = "default",
    no_embed: bool = flag("--no-embed", "Do not run the encoders: word search and graph only."),
    replace_docs: bool = flag(
        "--replace-docs", "Remove chunks that the loaded documents no longer contain."
    ),
    sync: bool = flag("--sync", "Also remove documents whose files were deleted from the folder."),
    rebuild: bool = flag(
        "--rebuild", "Compute the names and mentions of every stored chunk again."
    ),
    extract: str | None = option(
        "--extract",
        "Language model that extracts relations; shows data and cost, and asks first.",
        "MODEL",
    ),
    include_restricted: bool = flag(
        "--include-restricted", "With --extract: also send passages with an acl."
    ),
    yes: bool = flag(
        "--yes", "Skip all prompts: allow any number of --sync removals and --extract uploads."
    ),
    prefix: str = option(
        "--prefix", "Prefix of document ids that are made from paths.", "NAME/", default=""
    ),
    rejects: Path | None = option(
        "--rejects", "Write rejected lines to FILE as JSON lines.", "FILE"
    ),
    workers: int | None = option(
        "--workers",
        "Number of worker processes; default min(cores, 4) for 1 MB of files or more.",
        "N",
        min=1,
    ),
    watch: bool = flag(
        "--watch", "Keep running and reload changed files; with --sync, also remove deleted ones."
    ),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Load files into the index and the graph.

    Data files, recognised by name: chunks*.jsonl, passages*.jsonl, entities*.jsonl,
    relations*.jsonl, triples*.jsonl, *.obo. Documents: *.md, *.txt, *.html, *.rst, *.docx, *.pdf
    with a text layer, *.csv, *.ipynb, *.json and others. A file written by `docstokg export` must
    be the only source. Loading the same files again changes nothing; repeat an interrupted load.
    Unreadable files are listed with their reasons and the exit code is 1; the other files are
    loaded. --extract sends the passages to the model at DOCSTOKG_LLM_BASE_URL and adds the
    relations that it extracts; valid replies are stored and not requested again.
    """
    from docstokg.loading.context import LoadOptions
    from docstokg.loading.pipeline import load as run_load
    from docstokg.loading.read.rejects import RejectLog
    from docstokg_local.cli.display import TerminalProgress, show_load
    from docstokg_local.cli.documents import agree_to_remove
    from docstokg_local.cli.extraction import extractor_of
    from docstokg_local.cli.folder_watch import changes
    from docstokg_local.cli.transfer import is_export, read_export
    from docstokg_local.loading.stores import stores_with_workers, workers_for

    wiring = wiring_of(index, graph)
    if is_export(sources):
        chosen = context.get_parameter_source("namespace")
        name = None if chosen is None or chosen.name == "DEFAULT" else namespace
        good = read_export(wiring, sources[0], name, replace_docs, rejects)
        finish(good)
    options = LoadOptions(
        namespace,
        embed=not no_embed,
        replace_docs=replace_docs,
        prefix=prefix,
        sync=sync,
        rebuild=rebuild,
        agree=lambda doc_ids: yes or agree_to_remove(doc_ids),
        extract=extractor_of(wiring, extract, include_restricted, yes) if extract else None,
    )
    try:
        with stores_with_workers(wiring, not no_embed, workers or workers_for(sources)) as stores:
            for _ in changes(sources, wiring, rejects) if watch else (None,):
                with RejectLog(rejects) as log:
                    report = run_load(sources, options, stores, log, TerminalProgress())
                show_load(report, log)
    except OSError as broken:
        raise LoadError(f"{broken.filename or rejects}: {broken.strerror}") from broken
    finish(not (log.count or report.kept_back))


@app.command()
def export(
    namespace: NamespaceNamed,
    target: Annotated[Path, argument("FILE", "File to write, preferably .zip.")],
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Write a namespace to one file: texts, vectors and graph; replace an existing file.

    `docstokg load FILE` loads it into any stores without encoding anything again; the same
    namespace gets the same content digest.
    """
    from docstokg_local.cli.transfer import write_export

    write_export(wiring_of(index, graph), namespace, target)


@app.command()
def reembed(
    namespace: NamespaceNamed,
    model: str | None = option("--model", "Encoder; default: the configured one.", "NAME"),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Encode a namespace with another encoder.

    The source files are not needed. Repeat an interrupted run to continue it. Searches use the old
    vectors until it is complete.
    """
    from docstokg.loading.transfer.reembedding import reembed as move
    from docstokg_local.cli.display import TerminalProgress
    from docstokg_local.loading.stores import stores_of

    wiring = wiring_of(index, graph)
    dense = wiring.encoder(model) if model else wiring.embedder()
    if dense is None:
        raise Misconfigured("the encoder is not installed; `docstokg doctor` shows what is missing")
    count = move(stores_of(wiring), namespace, dense, TerminalProgress())
    echo(f"{namespace}: {counted(count, 'chunk')} encoded by {dense.model}")


@app.command(name="list")
def list_(
    namespace: str | None = option(
        "--namespace", "Only this namespace.", "NS", "-n", callback=check_namespace
    ),
    documents: bool = flag("--documents", "List every document."),
    entities: bool = flag("--entities", "List the thirty most mentioned entities."),
    as_json: bool = flag("--json", "Print JSON."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """List namespaces.

    Each has its number of documents and chunks, its encoder, its last load, and whether a load is
    unfinished or jobs are waiting.
    """
    from docstokg_local.cli.documents import list_loaded

    wiring = wiring_of(index, graph, verbose=not as_json)
    finish(list_loaded(wiring, namespace, documents, entities, as_json))


@app.command()
def delete(
    doc_id: str | None = option("--doc-id", "Remove one document.", "ID"),
    namespace: str | None = option(
        "--namespace",
        "Namespace; without --doc-id, all of it is removed.",
        "NS",
        "-n",
        callback=check_namespace,
    ),
    yes: bool = flag("--yes", "Remove a namespace without asking."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Remove a document, or a whole namespace, from both stores.

    `--doc-id ID [--namespace NS]` removes one document; `--namespace NS` alone removes all of it.
    """
    from docstokg.loading.pipeline import delete_document
    from docstokg.loading.run.erasure import erase_outputs
    from docstokg.loading.write.removal import delete_namespace
    from docstokg_local.loading.stores import stores_of

    if doc_id is None and namespace is None:
        raise typer.BadParameter("use --doc-id ID or --namespace NS")
    wiring = wiring_of(index, graph)
    stores, space = stores_of(wiring), namespace or "default"
    paths = list[str]()
    if doc_id is not None:
        paths = [record.path for record in stores.register.find(space, [doc_id])]
        count = delete_document(stores, space, doc_id)
        target = f"document {doc_id}"
    else:
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm(f"Remove everything of namespace {namespace}?", abort=True, err=True)
        count = delete_namespace(stores, space)
        target = f"namespace {namespace}"
    if wiring.settings.ingest_url:
        erase_outputs(space, doc_id, paths, wiring.object_store())
    if count == 0:
        echo(f"{target}: not found, nothing was removed", err=True)
        finish(False)
    echo(f"{target}: {counted(count, 'chunk')} removed")


@app.command(context_settings={"ignore_unknown_options": True})
def ask(  # noqa: PLR0913 - one parameter an option
    words: Annotated[list[str] | None, argument("QUESTION")] = None,
    namespace: str | None = option(
        "--namespace",
        "Namespace (tenant).",
        "NS",
        "-n",
        show_default="`default` if it is not empty, else the only one that is not",
    ),
    synthesize: str | None = option(
        "--synthesize",
        "Model that writes the answer; `extractive` needs no network, `auto` uses a "
        "configured model or a model server on this machine.",
        "MODEL",
        show_default="extractive; none with --json or --request",
    ),
    top_k: int | None = option("--top-k", "Number of passages that search selects, 1 to 100.", "N"),
    filters: list[str] | None = option(
        "--filter",
        "doc_id, document_name, section, topic or metadata key, repeatable; values of one key are "
        "ORed, different keys are ANDed.",
        "KEY=VALUE",
    ),
    no_graph: bool = flag("--no-graph", "Search without the knowledge graph."),
    citations: int = option(
        "--citations", "Number of citations to print.", "N", min=0, default=CITATIONS_SHOWN
    ),
    answer_only: bool = flag("--answer-only", "Print only the answer."),
    as_json: bool = flag("--json", "Print the RAGResponse (or the problem) as JSON."),
    receipt: Path | None = option(
        "--receipt",
        "Write the response with a signed receipt to FILE; see `docstokg receipt-key`.",
        "FILE",
    ),
    request: Path | None = option(
        "--request", "Read the request from a JSON file; other options override it.", "FILE"
    ),
    history: Path | None = option(
        "--history",
        'Read earlier turns of the conversation from a JSON file: [{"role": "user", "content": '
        '"..."}, {"role": "assistant", "content": "..."}].',
        "FILE",
    ),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Answer a question with citations.

    `*` marks the citations that the answer uses.
    """
    from docstokg.contracts.language_models import EXTRACTIVE
    from docstokg_local.cli.question import (
        AUTO,
        Shown,
        ask_and_show,
        request_of,
        with_a_model,
        with_answer,
    )

    if not as_json:
        check_namespace(namespace)
    fields = json_file(request, dict) if request else {}
    # An unquoted question arrives as several words.
    for wrong in (word for word in words or () if re.fullmatch(r"--?\S+", word)):
        cure = "if it is part of the question, put the whole question in quotation marks"
        raise typer.BadParameter(f"no such option: {wrong}; {cure}")
    question = " ".join(words) if words else None
    options: dict[str, object] = {"query": question, "namespace": namespace, "top_k": top_k}
    options["receipt"] = True if receipt else None
    options["history"] = json_file(history, list) if history else None
    body = request_of(fields, options, filters or (), not no_graph)
    wiring = wiring_of(index, graph, verbose=not as_json and not answer_only, log=False)
    # People get an answer by default; programs get only what they request.
    is_plain = not as_json and request is None and synthesize is None
    if synthesize == AUTO:
        wiring, synthesize = with_a_model(wiring)
    elif is_plain and EXTRACTIVE in wiring.settings.models:
        synthesize = EXTRACTIVE
    if synthesize is not None:
        body = with_answer(body, synthesize)
    form: Shown = "json" if as_json else "answer" if answer_only else "all"
    finish(ask_and_show(wiring, body, form, citations, receipt))


@app.command()
def serve(
    host: str = option("--host", "Address to listen on.", "H", default="127.0.0.1"),
    port: int = option("--port", "Port to listen on.", "P", "-p", min=0, max=65535, default=8080),
    workers: int | None = option(
        "--workers", "Number of processes; default min(cores, 4).", "N", min=1
    ),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Serve the web page and the HTTP API.

    The page is at /, the API reference at /docs, metrics at /metrics.
    """
    from docstokg_local.server.serving import serve as run_server

    run_server(settings_of(index, graph, name_store=True), host, port, workers)


@app.command()
def mcp(index: Index = None, graph: Graph = None) -> None:
    """Serve the MCP tools to one agent over standard input and output.

    The tools are those of POST /mcp; each line is one JSON-RPC message.
    """
    from docstokg_local.server.mcp_stdio import run as run_pipe

    run_pipe(wiring_of(index, graph))


@app.command(name="eval")
def evaluate(  # noqa: PLR0913 - one parameter an option
    folder: Annotated[
        Path, argument("FOLDER", "Folder with questions*.jsonl, answers*.jsonl or claims*.jsonl.")
    ],
    namespace: Namespace = "default",
    limit: int | None = option("--limit", "Use only the first N questions.", "N", min=1),
    ablate: str | None = option(
        "--ablate",
        "Additional runs without a part: graph, bm25, splade, dense, mmr, rrf, down:index, "
        "down:graph, down:embedder, down:sparse.",
        "NAME,...",
    ),
    answers: bool = flag(
        "--answers", "Compare answers with the reference answers in answers*.jsonl."
    ),
    model: str = option("--model", "Model for --answers.", "MODEL", default="extractive"),
    verifier: str | None = option(
        "--verifier",
        "Measure a verifier (`support` or a value of DOCSTOKG_VERIFIER) on claims*.jsonl.",
        "NAME",
    ),
    json_file: Path | None = option("--json", "Write the report to FILE.", "FILE"),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Measure retrieval against gold documents.

    With --answers, compare answers with reference answers; with --verifier, verdicts with labels.
    """
    from docstokg_local.evaluation import answers as answer_evaluation
    from docstokg_local.evaluation import claims as claim_evaluation
    from docstokg_local.evaluation import retrieval as evaluation

    settings = settings_of(index, graph)
    names = [name.strip() for name in (ablate or "").split(",") if name.strip()]
    if (answers or verifier) and names:
        raise typer.BadParameter("cannot be combined with --answers or --verifier")
    display = evaluation.show_report
    if verifier:
        labelled = claim_evaluation.read_claims(folder, limit)
        report = claim_evaluation.evaluate_claims(folder, labelled, verifier, settings)
        display = claim_evaluation.show_claims
    elif answers:
        references = answer_evaluation.read_answers(folder, limit)
        report = answer_evaluation.evaluate_answers(folder, references, namespace, model, settings)
        display = answer_evaluation.show_answers
    else:
        questions = evaluation.read_questions(folder, limit)
        report = evaluation.evaluate(folder, questions, namespace, names, settings)
    if json_file:
        try:
            json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        except OSError as broken:
            raise LoadError(f"{json_file}: {broken.strerror}") from broken
    display(report)
    finish(not (report if verifier else report["runs"][0])["errors"])


@app.command()
def verify(
    response: Annotated[Path, argument("RESPONSE.json", "A RAGResponse; `-` reads a pipe.")],
    source: Path | None = option(
        "--source", "Check against these files instead of the store.", "FOLDER"
    ),
    offline: bool = flag("--offline", "Check against the response's own receipt."),
    key: Path | None = option(
        "--key",
        "Public keys of --offline: a saved key set or PEM; default: DOCSTOKG_RECEIPT_KEY.",
        "PUB",
    ),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Check the citations of a response against its sources.

    Every source is read again, and spans, hashes and markers are compared. With --offline, no
    source is read: the receipt's signature and texts prove the response.
    """
    from docstokg_local.cli.receipts import COVERED, verify_offline
    from docstokg_local.cli.verify import show_findings, verify_response

    if (source and offline) or (key and not offline):
        raise typer.BadParameter("use --source FOLDER, or --offline [--key PUB]")
    body = json_file(response, dict)
    if offline:
        findings, proven = verify_offline(
            body, key, lambda: wiring_of(index, graph, verbose=False).receipt_keys()
        )
    else:
        findings, proven = verify_response(body, source, lambda: wiring_of(index, graph))
    show_findings(findings, proven)
    if offline:
        echo(COVERED)
    finish(not findings)


app.command("receipt-key")(receipt_key)
app.command("why-not")(why_not)
app.add_typer(entities, name="entities")


@app.command()
def check(  # noqa: PLR0913 - the command line is the signature
    draft: Annotated[Path, argument("DRAFT.txt", "A text; `-` reads a pipe.")],
    namespace: NamespaceOrNone = None,
    citations: Path | None = option(
        "--citations", "RAGResponse that contains the cited passages.", "RESPONSE.json"
    ),
    source: list[Path] | None = option(
        "--source", "Text file to check against instead of the store; repeatable.", "FILE"
    ),
    json_output: bool = flag("--json", "Print the CheckResponse."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Check a draft, sentence by sentence.

    Exit code 0: every sentence is supported; 1: one is not, a marker is invalid or the draft is
    inconsistent with the graph; 3: not verified.
    """
    from docstokg_local.cli.draft_check import check_file, show_check

    cited = json_file(citations, dict) if citations else None
    text, status, body = check_file(
        draft, namespace, cited, source or (), wiring_of(index, graph, verbose=not json_output)
    )
    if json_output:
        print_json(body)
    else:
        show_check(text, status, body)
    if status != 200 or body["grounding"]["grounded"] is False:
        finish(False)
    if body["consistency"] is not None and not body["consistency"]["ok"]:
        finish(False)
    raise typer.Exit(DONE if body["grounding"]["grounded"] else NOT_VERIFIED)


@app.command()
def doctor(
    settings: bool = flag("--settings", "Show all settings and values."),
    digest: bool = flag("--digest", "Show a digest of both stores' content."),
    check: bool = flag("--check", "Make one small real call to each language model."),
    namespace: list[str] | None = option(
        "--namespace", "Namespaces of the digest; repeatable.", "NS", "-n"
    ),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Check the installation and the stores, and show how to fix problems.

    The exit code is 1 if a configured part is missing or unreachable.
    """
    from docstokg_local.cli import doctor as examination

    if settings:
        examination.show_settings(settings_of(index, graph))
        return
    wiring = wiring_of(index, graph, verbose=not digest)
    if digest:
        examination.show_digest(wiring, namespace or [])
        return
    finish(examination.report(wiring, check=check))


app.command()(trace)


models = typer.Typer(invoke_without_command=True)
app.add_typer(models, name="models")


@models.callback()
def own_models(context: typer.Context) -> None:
    """Download the two model files of the encoders (18 MB).

    Dependencies are not installed; the hashes of both files are checked.
    """
    from docstokg_local.cli import model_files

    if context.invoked_subcommand is not None:
        return
    if (location := model_files.present()) is None:
        model_files.fetch()
        location = model_files.present()
    echo(f"Both model files are present {location}; checksums match.")


@models.command("fetch")
def fetch_model(
    url: Annotated[str, argument("URL", "Address of one file of an encoder.")],
    to: Annotated[Path, argument("FOLDER", "Folder of the encoder's files.")],
    sha256: str = option("--sha256", "SHA-256 of the file.", "HASH", default=...),
) -> None:
    """Download one file of another encoder and check its hash.

    Repeat an interrupted download to continue it.
    """
    from docstokg_local.cli.model_fetching import fetch_file

    echo(
        f"Downloaded {fetch_file(url, sha256, to)}, checksum OK. When all files are present, set "
        f"DOCSTOKG_EMBED_MODEL={to}."
    )


@app.command()
def demo(
    full: bool = flag("--full", "Load the whole ontology and all annotated diseases."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Build a small store and ask it a question.

    Its documents are generated from the Human Phenotype Ontology.
    """
    from docstokg_local.cli.demo import run_demo
    from docstokg_local.cli.model_files import fetch_at_first_run

    fetch_at_first_run(settings_of(index, graph).embed_provider)
    urls = (("--index", index), ("--graph", graph))
    options = [word for name, url in urls if url is not None for word in (name, url)]
    finish(run_demo(wiring_of(index, graph), full, options))


def main() -> None:
    """Run the command line; each product error becomes one message and an exit code."""
    os.umask(0o077)
    leave(run(app))


if __name__ == "__main__":
    main()
