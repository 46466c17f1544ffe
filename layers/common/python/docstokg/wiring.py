"""Dependency injection."""

import functools
import hashlib
import importlib.util
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from docstokg import ports
from docstokg.contracts.language_models import ModelAccess, facts_table
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Misconfigured, cause
from docstokg.observability import Telemetry
from docstokg.settings import SECRETS, UNPREFIXED, Settings

if TYPE_CHECKING:
    from docstokg.adapters.opensearch.resizing import Resizing

Handler = Callable[[dict[str, Any], object], dict[str, Any]]
CREDENTIALS = (*SECRETS, "index_user", "graph_user")
FLAGS_TIME_S = 0.05
# Seconds for the first flags; the agent fetches them while the sandbox starts.
FIRST_FLAGS_TIME_S = 0.5
WARM_TIME_S = 6.0
CALL_MARGIN_S = 2.0
# Seconds of processor time, and in all, to draw one page.
DRAW_S, DRAW_WALL_S = 10, 20.0
# Prefix of the keys of further encoders in the port cache.
OTHER_ENCODER = "encoder "


def once[Port](make: Callable[["Wiring"], Port]) -> Callable[["Wiring"], Port]:
    """Create a port at the first call and cache it under the name of its factory."""

    @functools.wraps(make)
    def port(self: "Wiring") -> Port:
        return self._once(make.__name__, lambda: make(self))

    return port


class Wiring:
    """Ports for one set of settings, each created on first use; thread-safe."""

    def __init__(
        self,
        settings: Settings,
        telemetry: Telemetry | None = None,
        ports: Mapping[str, object] | None = None,
    ) -> None:
        """`ports`: ports of a test or other caller, by factory name."""
        self.settings = settings
        self.telemetry = telemetry or _telemetry(settings)
        self._made: dict[str, object] = dict(ports or {})
        self._lock = threading.RLock()
        self._flags: Mapping[str, object] = {}
        self._flagged = settings

    def _once[Port](self, name: str, make: Callable[[], Port]) -> Port:
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return cast(Port, self._made[name])

    def override(self, name: str, port: object) -> None:
        """Replace a port by factory name, such as local workflow and functions."""
        with self._lock:
            self._made[name] = port

    @once
    def search_index(self) -> ports.SearchIndex:
        """Return the index at `index_url`; raise `Misconfigured` for other schemes."""
        if path := sqlite_path(self.settings.index_url):
            from docstokg.adapters.sqlite.index import SqliteIndex

            return SqliteIndex(path)
        from docstokg.adapters.opensearch.index import OpenSearchIndex

        return OpenSearchIndex(telemetry=self.telemetry, **self._opensearch())

    @once
    def index_writer(self) -> ports.IndexWriter:
        """Return the loading side of the index."""
        if path := sqlite_path(self.settings.index_url):
            from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter

            return SqliteIndexWriter(path)
        from docstokg.adapters.opensearch.writer import OpenSearchWriter

        return OpenSearchWriter(telemetry=self.telemetry, **self._opensearch())

    @once
    def register(self) -> ports.DocumentRegister:
        """Return the register of documents, stored with the index."""
        if path := sqlite_path(self.settings.index_url):
            from docstokg.adapters.sqlite.documents import SqliteRegister

            return SqliteRegister(path)
        from docstokg.adapters.opensearch.documents import OpenSearchRegister

        return OpenSearchRegister(**self._opensearch())

    @once
    def job_queue(self) -> ports.JobQueue:
        """Return the job queue: a file next to the embedded index, or in the cache folder."""
        from docstokg.adapters.sqlite.jobs import SqliteJobs

        if path := sqlite_path(self.settings.index_url):
            return SqliteJobs(path.with_name(f"{path.name}.jobs"))
        place = f"{self.settings.index_url} {self.settings.index_name} {self.settings.graph_url}"
        name = hashlib.sha256(place.encode()).hexdigest()[:16]
        return SqliteJobs(self.cache_folder() / f"{name}.jobs")

    def draw_page(self, raw: bytes, number: int) -> bytes:
        """Return a PDF page (from 1) as PNG; raise `LoadError`, `Timeout` or `Unavailable`."""
        from docstokg.adapters.conversion.parent import ChildConverter

        drawer = self._once("drawer", lambda: ChildConverter(DRAW_S, wall_s=DRAW_WALL_S))
        return drawer.draw(raw, number)

    def resizing(self) -> "Resizing":
        """Return the resizing of the index; raise `Misconfigured` for SQLite files."""
        from docstokg.adapters.opensearch.resizing import Resizing
        from docstokg.adapters.opensearch.server import Server

        at = self._opensearch()
        name = at.pop("name")
        return Resizing(Server(**at), name)

    def _opensearch(self) -> dict[str, Any]:
        chosen = self.settings
        if not chosen.index_url.startswith(("http://", "https://")):
            raise Misconfigured(
                f"DOCSTOKG_INDEX_URL {chosen.index_url!r} is neither sqlite:///PATH nor http(s)://"
            )
        login = {"user": chosen.index_user, "password": chosen.index_password}
        shards = (chosen.index_shards, chosen.index_replicas)
        at = {"url": chosen.index_url, "name": chosen.index_name, "auth": chosen.index_auth}
        return {**at, "shards": shards, **login}

    @once
    def knowledge_graph(self) -> ports.KnowledgeGraph:
        """Return the graph at `graph_url`; raise `Misconfigured` for other schemes."""
        if path := sqlite_path(self.settings.graph_url):
            from docstokg.adapters.sqlite.graph import SqliteGraph

            return SqliteGraph(path)
        from docstokg.adapters.breaker import SharedCircuit
        from docstokg.adapters.neo4j.graph import Neo4jGraph

        shared: SharedCircuit | None = None
        if table := by_name(self.settings.tables).get("circuit"):
            from docstokg.adapters.aws.shared_circuit import CircuitTable

            shared = CircuitTable(table, "graph", telemetry=self.telemetry)
        graph = Neo4jGraph(**self._neo4j(), shared=shared, telemetry=self.telemetry)
        if self.settings.kg_enabled:
            graph.prepare()  # query plans are checked at process start, never in a request
        return graph

    @once
    def graph_writer(self) -> ports.GraphWriter:
        """Return the loading side of the graph."""
        if path := sqlite_path(self.settings.graph_url):
            from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter

            return SqliteGraphWriter(path)
        from docstokg.adapters.neo4j.writer import Neo4jGraphWriter

        return Neo4jGraphWriter(**self._neo4j())

    def _neo4j(self) -> dict[str, Any]:
        chosen = self.settings
        if not re.match(r"(neo4j|bolt)(\+s|\+ssc)?(://|$)", chosen.graph_url):
            raise Misconfigured(
                f"DOCSTOKG_GRAPH_URL {chosen.graph_url!r} is neither sqlite:///PATH nor "
                "neo4j://, neo4j+s:// or bolt://"
            )
        login = {"user": chosen.graph_user, "password": chosen.graph_password}
        return {"url": chosen.graph_url, "database": chosen.graph_database, **login}

    @once
    def embedder(self) -> ports.Embedder | None:
        """Return the embedder, cached, or None; raise `Misconfigured` for an unknown model."""
        chosen, provider = self.settings, self.settings.embed_provider
        if provider == "none" or (provider == "jina" and not chosen.provider_jina_enabled):
            return None
        from docstokg.adapters.sqlite.vector_cache import CachedEmbedder

        if provider == "local":
            if (inner := self._local_encoder(chosen.embed_model or "")) is None:
                return None
            return CachedEmbedder(inner, self.cache_folder(), others=self.encoder)
        at: dict[str, Any] = {"base_urls": chosen.embed_base_url, "model": chosen.embed_model}
        at["dimension"] = chosen.embed_dimension
        if provider == "bedrock":
            from docstokg.adapters.http.bedrock import BedrockEmbedder

            return CachedEmbedder(BedrockEmbedder(**at), self.cache_folder())
        from docstokg.adapters.http.embedder import HttpEmbedder

        remote = HttpEmbedder(provider=provider, api_key=chosen.embed_api_key, **at)
        return CachedEmbedder(remote, self.cache_folder())

    def _local_encoder(self, name: str) -> ports.Embedder | None:
        from docstokg.adapters import multilingual
        from docstokg.adapters.onnx import folder, minilm

        if name in (multilingual.NAME, multilingual.MODEL):
            encoder = multilingual.MultilingualEncoder()
            return encoder if encoder.installed() else None
        if name in ("", minilm.MODEL):
            return minilm.OnnxMiniLm() if minilm.OnnxMiniLm.installed() else None
        if folder_path := folder.folder_of(name):
            return folder.FolderEncoder(folder_path)
        raise Misconfigured(f"DOCSTOKG_EMBED_MODEL {name!r} is no local model. {folder.INSTALL}")

    def encoder(self, name: str) -> ports.Embedder | None:
        """Return an installed local encoder by name; None if it is unknown or not installed."""
        from docstokg.adapters.sqlite.vector_cache import CachedEmbedder

        def make() -> ports.Embedder | None:
            try:
                inner = self._local_encoder(name) if name else None
            except Misconfigured:
                return None
            return None if inner is None else CachedEmbedder(inner, self.cache_folder())

        return self._once(OTHER_ENCODER + name, make)

    def make_stored_encoders(self) -> None:
        """Create further encoders of namespaces in SQLite and load stop words; ignore errors."""
        if sqlite_path(self.settings.index_url) is not None:
            from docstokg.adapters.languages import analysis_of

            # nothing is loaded yet, or the first question will report the error
            with suppress(DocsToKGError):
                info = self.search_index().info(Deadline.after(WARM_TIME_S))
                for namespace in info.namespaces:
                    ports.encoder_of(self.embedder(), info.model_of(namespace))
                    for code in info.languages_of(namespace).keys() - {"en"}:
                        analysis_of(code)

    def multilingual(self) -> Callable[[], ports.Embedder] | None:
        """Return the factory of the multilingual encoder; None if another encoder is configured."""
        if self.settings.embed_provider != "local" or self.settings.embed_model:
            return None
        from docstokg.adapters import multilingual

        def make() -> ports.Embedder:
            if (encoder := self.encoder(multilingual.MODEL)) is None:
                raise Misconfigured(f"the encoder reads English alone: {multilingual.INSTALL}")
            return encoder

        return make

    @once
    def sparse_encoder(self) -> ports.SparseEncoder | None:
        """Return the learned sparse encoder; None if it is off or not installed."""
        if self.settings.sparse == "none":
            return None
        from docstokg.adapters.onnx.splade import OnnxSplade

        if not OnnxSplade.installed():
            return None
        from docstokg.adapters.sqlite.vector_cache import CachedSparseEncoder

        return CachedSparseEncoder(OnnxSplade(), self.cache_folder())

    @once
    def names(self) -> ports.NameFinder | None:
        """Return the name recogniser for loads; None if off or not installed: rules are used."""
        if self.settings.names == "rule":
            return None
        from docstokg.adapters import spacy_names

        installed = all(map(importlib.util.find_spec, ("spacy", spacy_names.MODEL)))
        return spacy_names.SpacyNames(self.languages()) if installed else None

    @once
    def languages(self) -> ports.LanguageFinder | None:
        """Return the language recogniser; None (all is English) without py3langid."""
        if importlib.util.find_spec("py3langid") is None:
            return None
        from docstokg.adapters.languages import Recogniser

        return Recogniser()

    def question_languages(self) -> ports.LanguageFinder | None:
        """Return the recogniser of question languages; None without an encoder or py3langid."""
        from docstokg.adapters import languages, multilingual

        embedder, installed = self.embedder(), importlib.util.find_spec("py3langid") is not None
        if embedder is not None and multilingual.may_cross(embedder.model):
            return self.languages()
        return languages.Recogniser() if embedder is not None and installed else None

    @once
    def piece_counter(self) -> ports.PieceCounter:
        """Return the encoder's word pieces, or a safe estimate without its vocabulary."""
        from docstokg.adapters.onnx.wordpieces import EstimatedPieces, WordPieces

        return WordPieces() if WordPieces.installed() else EstimatedPieces()

    def model_settings(self) -> tuple[str, ...]:
        """Return the settings that choose a load's models."""
        chosen = self.settings
        dense = (chosen.embed_provider, chosen.embed_model or "", str(chosen.embed_dimension))
        return (*dense, chosen.sparse, chosen.names)

    @once
    def converter(self) -> ports.Converter:
        """Return the converter for all formats whose packages are installed."""
        from docstokg.adapters.conversion.parent import ChildConverter

        return ChildConverter()

    @once
    def reader(self) -> ports.Reader | None:
        """Return the reader of the built-in model; None if off or not installed."""
        # A deployed function has none of the packages of the local encoder.
        if self.settings.reader == "none" or importlib.util.find_spec("onnxruntime") is None:
            return None
        from docstokg.adapters.onnx.reader import OnnxReader

        return OnnxReader() if OnnxReader.installed() else None

    @once
    def reranker(self) -> ports.Reranker | None:
        """Return the configured cross-encoder, or None."""
        chosen = self.settings
        if chosen.rerank_provider == "none":
            return None
        if chosen.rerank_provider == "local":
            return self._local_reranker()
        at = {"base_url": chosen.rerank_base_url, "model": chosen.rerank_model}
        if chosen.rerank_provider == "bedrock":
            from docstokg.adapters.http.bedrock import BedrockReranker

            return BedrockReranker(**at)
        from docstokg.adapters.http.reranker import HttpReranker

        return HttpReranker(provider=chosen.rerank_provider, api_key=chosen.rerank_api_key, **at)

    def _local_reranker(self) -> ports.Reranker:
        from docstokg.adapters.onnx.reranker import OnnxReranker

        return OnnxReranker(self.settings.rerank_model_path)

    @once
    def fallback_reranker(self) -> ports.Reranker | None:
        """Return the local cross-encoder as fallback of a remote one, if its file is configured."""
        remote = self.settings.rerank_provider not in ("none", "local")
        return self._local_reranker() if remote and self.settings.rerank_model_path else None

    @once
    def verifier(self) -> ports.Verifier | None:
        """Return the configured verifier; None if only rules give verdicts."""
        chosen = self.settings
        kind, _, target = (chosen.verifier or "").partition(":")
        threshold = chosen.verifier_threshold
        if kind == "onnx":
            from docstokg.adapters.onnx.verifier import OnnxVerifier

            return OnnxVerifier(Path(target).expanduser(), threshold)
        if kind in ("https", "http"):
            from docstokg.adapters.http.verifier import HttpVerifier

            key, label = chosen.verifier_api_key, chosen.verifier_label
            return HttpVerifier(f"{kind}:{target}", label, threshold, key)
        if kind == "bedrock-guardrail":
            from docstokg.adapters.aws.guardrail import BedrockGuardrail

            guardrail, _, version = target.partition(":")
            return BedrockGuardrail(guardrail, version, threshold)
        return self._judge(target) if kind == "llm" else None

    def _judge(self, model: str) -> ports.Verifier:
        threshold = self.settings.verifier_threshold
        if arn := by_name(self.settings.route_functions).get("synthesize"):
            from docstokg.adapters.aws.lambda_verifier import LambdaVerifier

            return LambdaVerifier(f"llm:{model}", threshold, arn, self._call_time_s())
        from docstokg.adapters.judge import Judge

        return Judge(model, self.language_model().complete, threshold)

    @once
    def language_model(self) -> ports.LanguageModel:
        """Return the remote language models; `extractive` needs none."""
        from docstokg.adapters.aws.credentials import RoleKeys
        from docstokg.adapters.http.chat import HttpChat
        from docstokg.adapters.language_models import LanguageModels
        from docstokg.adapters.litellm import LiteLlm

        access, others = self.model_access(), LiteLlm(RoleKeys())
        return LanguageModels(
            access, HttpChat().generate, others.generate, others.warm, self.settings.models
        )

    def model_access(self) -> ModelAccess:
        """Return access data of the configured language model providers."""
        chosen = self.settings
        return ModelAccess(
            base_url=chosen.llm_base_url,
            api_key=chosen.llm_api_key,
            openai_api_key=chosen.openai_api_key,
            anthropic_api_key=chosen.anthropic_api_key,
            provider_urls=by_name(chosen.provider_urls),
            facts=facts_table(chosen.model_table),
        )

    @once
    def reply_store(self) -> ports.ReplyStore:
        """Return the store of model replies for loads."""
        from docstokg.adapters.sqlite.replies import SqliteReplies

        return SqliteReplies(self.cache_folder() / "replies.sqlite")

    @once
    def response_cache(self) -> ports.ResponseCache:
        """Return the store of complete responses."""
        if table := by_name(self.settings.tables).get("cache"):
            from docstokg.adapters.aws.dynamodb_cache import DynamoDbCache

            return DynamoDbCache(table)
        from docstokg.adapters.sqlite.cache import SqliteCache

        return SqliteCache(self.cache_folder() / "responses.sqlite")

    @once
    def call_counter(self) -> ports.CallCounter | None:
        """Return the shared counters, or None if each process counts for itself."""
        if table := by_name(self.settings.tables).get("circuit"):
            from docstokg.adapters.aws.dynamodb_counter import DynamoDbCounter

            return DynamoDbCounter(table)
        if self.settings.process_dir is None:
            return None
        from docstokg.adapters.sqlite.shared import SqliteCounter

        return SqliteCounter(Path(self.settings.process_dir) / "shared.sqlite")

    @once
    def receipt_keys(self) -> ports.ReceiptKeys | None:
        """Return the signing key of receipts and its predecessors; None without a setting."""
        if not (location := self.settings.receipt_key):
            return None
        from docstokg.adapters.receipt_keys import ReceiptKeys

        if location.startswith("arn:"):
            from docstokg.adapters.aws.secrets import text_at
        else:
            from docstokg.adapters.key_file import text_at
        return ReceiptKeys.signing(text_at(location), location)

    @once
    def trace_sink(self) -> ports.TraceSink | None:
        """Return the queue of retrieval traces; None if they are off or the local server's own."""
        if self.settings.traces in ("off", "local"):
            return None
        from docstokg.adapters.aws.sqs_trace import SqsTrace

        return SqsTrace(self.settings.traces)

    @once
    def trace_store(self) -> ports.TraceStore:
        """Return the store of recorded traces."""
        if path := sqlite_path(self.settings.graph_url):
            from docstokg.adapters.sqlite.traces import SqliteTraces

            return SqliteTraces(path)
        from docstokg.adapters.neo4j.traces import Neo4jTraces

        return Neo4jTraces(**self._neo4j(), telemetry=self.telemetry)

    @once
    def workflow(self) -> ports.Workflow:
        """Return the state machine of `workflow_arn`; raise `Misconfigured` without."""
        if self.settings.workflow_arn is None:
            raise Misconfigured("DOCSTOKG_WORKFLOW_ARN is needed")
        from docstokg.adapters.aws.stepfunctions import StepFunctionsWorkflow

        return StepFunctionsWorkflow(self.settings.workflow_arn, self._call_time_s())

    @once
    def object_store(self) -> ports.ObjectStore:
        """Return the bucket or folder of `ingest_url`; raise `Misconfigured` for other URLs."""
        url = self.settings.ingest_url or ""
        scheme, _, bucket = url.partition("://")
        if scheme == "file" and bucket.startswith("/"):
            from docstokg.adapters.folder_objects import FolderObjects

            return FolderObjects(Path(bucket))
        if scheme != "s3":
            raise Misconfigured(
                f"DOCSTOKG_INGEST_URL {url!r} is neither s3://NAME nor file:///FOLDER"
            )
        from docstokg.adapters.aws.s3_objects import S3Objects

        return S3Objects(bucket)

    @once
    def load_runs(self) -> ports.LoadRuns | None:
        """Return the executions of the load state machine; None if the server loads itself."""
        if self.settings.ingest_machine_arn is None:
            return None
        from docstokg.adapters.aws.stepfunctions_runs import StepFunctionsRuns

        return StepFunctionsRuns(self.settings.ingest_machine_arn, self.settings.load_schedule_role)

    def route_function(self, route: str) -> ports.Workflow | None:
        """Return the function of a route outside the workflow; None if it is not deployed."""

        def make() -> ports.Workflow | None:
            if (arn := by_name(self.settings.route_functions).get(route)) is None:
                return None
            from docstokg.adapters.aws.lambda_invoke import LambdaRouteFunction

            return LambdaRouteFunction(arn, self._call_time_s())

        return self._once(f"{route}_function", make)

    def _call_time_s(self) -> float:
        return self.settings.max_timeout_s + CALL_MARGIN_S

    def current_settings(self) -> Settings:
        """Return the settings with current flags, else the last ones, else with switches off."""
        if (path := self.settings.appconfig) is None:
            return self.settings
        from docstokg.adapters.aws.appconfig_flags import AppConfigFlags

        source = self._once("flags", lambda: AppConfigFlags(path))
        known_once = self._flagged is not self.settings
        try:
            time_s = FLAGS_TIME_S if known_once else FIRST_FLAGS_TIME_S
            flags = source.current(Deadline.after(time_s))
            flag_settings = {name.lower(): v for name, v in flags.items() if name in UNPREFIXED}
            with self._lock:
                if flag_settings != self._flags or not known_once:
                    all_settings = self.settings.model_dump() | flag_settings
                    self._flagged = Settings.model_validate(all_settings)
                    self._flags = flag_settings
        except DocsToKGError as exc:
            self.telemetry.log("WARNING", "flags_unavailable", **cause(exc))
        except ValueError as exc:
            # The message of a wrong flag contains its value, which may be sensitive.
            self.telemetry.log("WARNING", "flags_unavailable", kind=type(exc).__name__)
        if self._flagged is self.settings:
            switches = [name.lower() for name in UNPREFIXED if name != "RAG_LOG_SNIPPETS"]
            off = {name: False for name in switches if getattr(self.settings, name) is True}
            return self.settings.model_copy(update=off)
        return self._flagged

    @once
    def token_verifier(self) -> ports.TokenVerifier:
        """Return the bearer-token verifier; raise `Misconfigured` without its settings."""
        chosen = self.settings
        if not (chosen.jwt_issuer and chosen.jwt_audience and chosen.jwt_jwks_url):
            raise Misconfigured(
                "DOCSTOKG_JWT_ISSUER, DOCSTOKG_JWT_AUDIENCE and DOCSTOKG_JWT_JWKS_URL are needed"
            )
        from docstokg.adapters.jwt_tokens import Claims, JwksTokens

        claims = Claims(*chosen.jwt_claims)
        return JwksTokens(chosen.jwt_issuer, chosen.jwt_audience, chosen.jwt_jwks_url, claims)

    def models(self) -> dict[str, object]:
        """Return the created ports that are models in this process, by factory name."""
        names = ["sparse_encoder", "reader"]
        names += ["embedder"] if self.settings.embed_provider == "local" else []
        names += [name for name in self._made if name.startswith(OTHER_ENCODER)]
        names += ["reranker"] if self.settings.rerank_provider == "local" else []
        names += ["verifier"] if (self.settings.verifier or "").startswith("onnx:") else []
        with self._lock:
            return {name: self._made[name] for name in names if name in self._made}

    def warm(self, deadline: Deadline | None = None) -> None:
        """Load models and open connections in parallel; failures are logged, and retried on use.

        A hanging graph continues in the background after `deadline` (default: 6 s).
        """
        warming = [
            threading.Thread(target=self._warm, args=(warm,), daemon=True)
            for name, port in tuple(self._made.items())
            if callable(warm := getattr(port, "warm", None))
            and (name != "knowledge_graph" or self.settings.kg_enabled)
        ]
        for thread in warming:
            thread.start()
        deadline = deadline or Deadline.after(WARM_TIME_S)
        for thread in warming:
            thread.join(deadline.remaining())

    def _warm(self, warm: Callable[[], object]) -> None:
        try:
            warm()
        except DocsToKGError as exc:
            self.telemetry.log("WARNING", "not_warm", error=str(exc))

    def close(self) -> None:
        """Close all connections, for servers that stop and tests."""
        with self._lock:
            for port in self._made.values():
                if callable(close := getattr(port, "close", None)):
                    close()

    def cache_folder(self) -> Path:
        """Return the folder for vectors and responses."""
        return Path(self.settings.cache_dir).expanduser()


def _telemetry(settings: Settings) -> Telemetry:
    level, reveal = settings.log_level, settings.rag_log_snippets
    if settings.environment is None:
        return Telemetry(level=level, reveal=reveal)
    from docstokg.adapters.aws.powertools import function_telemetry

    return function_telemetry(settings.environment, level, reveal=reveal)


def with_secrets(
    settings: Settings, cached: dict[str, dict[str, str]], time_s: float | None = None
) -> Settings:
    """Return settings with the credentials of `DOCSTOKG_SECRETS`; raise `Misconfigured` if invalid.

    `cached`: earlier values, kept for unreadable secrets, updated here. `time_s`: per secret.
    """
    if not settings.secrets:
        return settings
    from docstokg.adapters.aws.secrets import TIME_S, read_secrets

    ids = settings.secrets.replace(",", " ").split()
    values = read_secrets(ids, CREDENTIALS, cached, time_s=time_s or TIME_S)
    return Settings.model_validate(settings.model_dump() | values)


def by_name(settings: Iterable[str]) -> dict[str, str]:
    """Parse values of the form NAME=VALUE; ignore others."""
    return dict(setting.split("=", 1) for setting in settings if "=" in setting)


def sqlite_path(url: str) -> Path | None:
    """Return the file of a `sqlite:///PATH` URL (a fourth slash: absolute); None for others."""
    scheme, _, path = url.partition(":///")
    return Path(path).expanduser() if scheme == "sqlite" and path else None
