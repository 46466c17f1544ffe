"""A receipt proves a response without the store, and every manipulation of it is found."""

import base64
import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.receipt_keys import ReceiptKeys
from docstokg.contracts.response import RAGResponse
from docstokg.domain.budget import nested_json_bytes
from docstokg.domain.identity import chunk_uuid
from docstokg.errors import Misconfigured
from docstokg_functions.respond.trim import reply_within
from tests.builders import answer_request, body_of, ran, refusal, tool_call
from tests.workflow.conftest import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "verify_receipt.py"
QUESTION = "What is Dravet syndrome?"
ASKED = answer_request(QUESTION, 300, receipt=True)
Body = dict[str, Any]
Change = Callable[[Body], object]


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configured key; its public key set is in keys.json."""
    keys = ReceiptKeys.make()
    (tmp_path / "key.pem").write_text(keys.private_pem())
    (tmp_path / "keys.json").write_text(json.dumps(keys.key_set()))
    monkeypatch.setenv("DOCSTOKG_RECEIPT_KEY", str(tmp_path / "key.pem"))
    return tmp_path / "key.pem"


@pytest.fixture
def saved(cli: Cli, key: Path, tmp_path: Path) -> Path:
    file = tmp_path / "receipt.json"
    assert cli("ask", QUESTION, "--receipt", file)[0] == 0
    return file


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[..., list[int]]:
    """Run the example where only its two packages are installed; return its exit codes."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("cryptography", "cffi", "pycparser", "_cffi_backend", "rfc8785"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        place = Path(spec.origin)
        place = place.parent if place.name == "__init__.py" else place
        (packages / place.name).symlink_to(place)
    program = (
        "import importlib.util, runpy, sys\n"
        f"sys.path.append({str(packages)!r})\n"
        "assert importlib.util.find_spec('docstokg') is None\n"
        "keys, *files = sys.argv[1:]\n"
        "for file in files:\n"
        "    sys.argv = ['x', file, keys]\n"
        "    try:\n"
        f"        runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "    except SystemExit as done:\n"
        "        print('exit', done.code)\n"
    )

    def run(keys: Path, *files: Path) -> list[int]:
        done = ran(sys.executable, "-I", "-S", "-c", program, keys, *files)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("exit ")]

    return run


def offline(cli: Cli, file: Path, keys: Path) -> tuple[int, str, str]:
    return cli("verify", file, "--offline", "--key", keys, store=None)


def at(*place: str | int) -> Callable[..., Change]:
    """Return a function of changes at a place: by field a value, or a function of the old one."""

    def changes(**fields: Any) -> Change:
        def change(body: Any) -> None:
            for key in place:
                body = body[key]
            for name, value in fields.items():
                body[name] = value(body[name]) if callable(value) else value

        return change

    return changes


whole, metadata, receipt = at(), at("metadata"), at("receipt")
first, sentence = at("citations", 0), at("grounding", "sentences", 0)


def consistent(body: Body) -> None:
    """Another fact everywhere, with the right hash and offsets: only the signature is against."""
    cited = body["citations"][0]
    (text,) = (text for text in body["receipt"]["texts"] if text["uuid"] == cited["uuid"])
    for holder, name in ((text, "text"), (cited, "snippet")):
        holder[name] = holder[name].replace("infancy", "old age")
    cited["text_sha256"] = hashlib.sha256(text["text"].encode()).hexdigest()
    assert "old age" in text["text"]


def signed_again(body: Body, key_id: str | None = None) -> None:
    """A stranger signs another answer, in its own name or in that of the server's key."""
    other = ReceiptKeys.make()
    body["answer"] += " Nobody dies of it."
    body["receipt"]["key_id"] = key_id or other.key_id
    body["receipt"]["signature"] = other.sign(body)


def swap(items: list[Any]) -> None:
    items[0], items[1] = items[1], items[0]


MANIPULATIONS: dict[str, Change] = {
    "question": whole(query="What is asthma?"),
    "question used": whole(query_used="What is asthma?"),
    "answer": whole(answer=lambda text: text.replace("severe", "mild")),
    "answer longer": whole(answer=lambda text: text + " It is rare [1]."),
    "marker": whole(answer=lambda text: text.replace("[1]", "[2]")),
    "snippet": first(snippet=lambda text: text + " It is mild."),
    "text": at("receipt", "texts", 0)(text="Dravet syndrome is mild."),
    "text and hash and snippet": consistent,
    "text dropped": lambda body: body["receipt"]["texts"].pop(),
    "texts swapped": lambda body: swap(body["receipt"]["texts"]),
    "start": first(char_start=lambda start: start + 1),
    "end": first(char_end=lambda end: end + 1),
    "start of the text": at("receipt", "texts", 0)(char_start=7),
    "offset base": first(offset_base="document"),
    "hash": first(text_sha256="0" * 64),
    "document": first(doc_id="d-asthma"),
    "name": first(document_name="other.pdf"),
    "page": first(page=7),
    "section": first(section="Elsewhere"),
    "passage id": first(chunk_id="asthma"),
    "uuid": lambda body: first(uuid=body["citations"][1]["uuid"])(body),
    "rank": first(rank=2),
    "score": first(score=0.99),
    "cited": first(cited=False),
    "order": lambda body: swap(body["citations"]),
    "order with ranks": lambda body: (
        swap(body["citations"]),
        [citation.update(rank=rank) for rank, citation in enumerate(body["citations"], 1)],
    ),
    "citation dropped": lambda body: (
        body["citations"].pop(),
        body.update(results_count=len(body["citations"])),
    ),
    "citation repeated": lambda body: body["citations"].append(body["citations"][0]),
    "verdict": sentence(verdict="unverified"),
    "unknown verdict": sentence(verdict="true"),
    "quote": sentence(quote="Dravet syndrome is mild."),
    "decided by": sentence(decided_by="onnx:model"),
    "grounded": at("grounding")(grounded=None),
    "confidence": whole(confidence=1.0),
    "warning dropped": whole(warnings=["None."]),
    "namespace": metadata(namespace="other"),
    "service version": metadata(service_version="9.9.9"),
    "number as text": first(rank="1"),
    "true as a number": first(cited=1),
    "number as text elsewhere": whole(results_count=str),
    "version": receipt(version=2),
    "version as text": receipt(version="1"),
    "settings": receipt(settings_digest="0" * 64),
    "key id": receipt(key_id="x"),
    "signature": receipt(signature=lambda text: "A" + text[1:]),
    "signature written otherwise": receipt(signature=lambda text: text.rstrip("=")),
    "no signature": lambda body: body["receipt"].pop("signature"),
    "no receipt": lambda body: body.pop("receipt"),
    "field added": whole(approved=True),
    "field added to the receipt": receipt(approved=True),
    "signed by a stranger": signed_again,
    "signed by a stranger in our name": lambda body: signed_again(body, body["receipt"]["key_id"]),
}  # fmt: skip
TEXTS: dict[str, Callable[[str], str]] = {
    "name repeated": lambda text: text.replace("{", '{"answer": "No.",', 1),
    "not a number": lambda text: text.replace('"confidence": ', '"confidence": NaN, "was": ', 1),
    "cut": lambda text: text[:-20],
}


def test_a_manipulation_is_found(
    cli: Cli, saved: Path, tmp_path: Path, elsewhere: Callable[..., list[int]]
) -> None:
    """By the command and by the example, which has neither the package nor the store."""
    honest, keys = saved.read_text("utf-8"), tmp_path / "keys.json"
    assert len(MANIPULATIONS) + len(TEXTS) >= 30
    texts = {name: edit(honest) for name, edit in TEXTS.items()}
    assert honest not in texts.values()
    for name, change in MANIPULATIONS.items():
        body = json.loads(honest)
        change(body)
        assert body != json.loads(honest) or name == "true as a number", name
        texts[name] = json.dumps(body)
    files = []
    for name, text in texts.items():
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(text, encoding="utf-8")
        code, out, err = offline(cli, files[-1], keys)
        assert code in (1, 2), name
        assert "not proven" in out or err, name
        assert ", 0 findings" not in out and "Traceback" not in err, name
    codes = elsewhere(keys, *files)
    assert set(codes) <= {1, 2}
    assert len(codes) == len(files)
    code, out, _ = offline(cli, saved, keys)
    assert code == 0, out
    assert "covers the whole response but `diagnostics`" in " ".join(out.split())
    assert elsewhere(keys, saved) == [0]


def test_the_failed_part_is_named(cli: Cli, saved: Path, tmp_path: Path) -> None:
    honest = saved.read_text("utf-8")
    for name, parts in {
        "start": ("$.citations[0].snippet", "$.receipt.signature"),
        "hash": ("$.citations[0].text_sha256", "$.receipt.signature"),
        "marker": ("$.citations[0].cited", "$.receipt.signature"),
        "quote": ("$.grounding.sentences[0].quote", "$.receipt.signature"),
        "version": ("$.receipt.version", "$.receipt.signature"),
        "text and hash and snippet": ("$.receipt.signature",),
    }.items():
        body = json.loads(honest)
        MANIPULATIONS[name](body)
        saved.write_text(json.dumps(body))
        out = offline(cli, saved, tmp_path / "keys.json")[1]
        assert all(f"not proven {part}: " in out for part in parts), (name, out)


def test_equivalent_json_verifies_equally(
    cli: Cli, saved: Path, tmp_path: Path, elsewhere: Callable[..., list[int]]
) -> None:
    """Order of names, spaces, escapes, 1 for 1.0; and the diagnostics, which are not signed."""
    body = json.loads(saved.read_text("utf-8"))

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(value[name]) for name in sorted(value, reverse=True)}
        if isinstance(value, list):
            return [plain(element) for element in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    body["diagnostics"] = None
    saved.write_text(json.dumps(plain(body), ensure_ascii=True), encoding="utf-8")
    keys = tmp_path / "keys.json"
    assert offline(cli, saved, keys)[0] == 0
    assert elsewhere(keys, saved) == [0]


def test_a_key_is_replaced(
    cli: Cli, saved: Path, key: Path, tmp_path: Path, elsewhere: Callable[..., list[int]]
) -> None:
    new, only_new = tmp_path / "new.pem", tmp_path / "only_new.json"
    code, out, err = cli("receipt-key", new, store=None)
    assert code == 0
    assert f"DOCSTOKG_RECEIPT_KEY={new}" in err
    assert new.stat().st_mode & 0o777 == 0o600
    only_new.write_text(out)
    assert cli("receipt-key", new, store=None) == (0, out, "")  # an existing file is only read
    old_id = json.loads(saved.read_text())["receipt"]["key_id"]
    code, out, _ = offline(cli, saved, only_new)
    assert code == 1
    assert f"$.receipt.key_id: is {old_id}, the known keys are " in out
    assert "pass the key set of the time of the response" in out
    assert elsewhere(only_new, saved) == [1]
    pem = ran("openssl", "pkey", "-in", key, "-pubout", check=True).stdout
    new.write_text(new.read_text() + pem)
    both = tmp_path / "both.json"
    both.write_text(cli("receipt-key", new, store=None)[1])
    assert len(json.loads(both.read_text())["keys"]) == 2
    assert offline(cli, saved, both)[0] == 0
    assert elsewhere(both, saved) == [0]
    (tmp_path / "old.pub").write_text(pem)
    assert offline(cli, saved, tmp_path / "old.pub")[0] == 0


def test_wrong_usage_is_explained(
    cli: Cli, saved: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("verify", saved, "--offline", store=None)[0] == 0  # by the configured key
    assert cli("verify", saved, "--key", key)[0] == 2
    assert cli("verify", saved, "--offline", "--source", tmp_path)[0] == 2
    (tmp_path / "no.pem").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")
    for wrong in ("no.pem", "absent.pem"):
        code, _, err = offline(cli, saved, tmp_path / wrong)
        assert code == 2 and "AAAA" not in err
    monkeypatch.setenv("DOCSTOKG_RECEIPT_KEY", str(tmp_path / "no.pem"))
    code, _, err = cli("ask", QUESTION, "--receipt", tmp_path / "none.json")
    assert code == 2
    assert "none.json was not written. There is no receipt: its key cannot be read" in err
    monkeypatch.delenv("DOCSTOKG_RECEIPT_KEY")
    code, _, err = cli("verify", saved, "--offline", store=None)
    assert code == 2 and "--key PUB" in err
    code, _, err = cli("ask", QUESTION, "--receipt", tmp_path / "none.json")
    assert code == 1
    assert "(receipts_off)" in err and "docstokg receipt-key" in err
    assert not (tmp_path / "none.json").exists()
    code, out, _ = cli("ask", QUESTION, "--json")
    (tmp_path / "plain.json").write_text(out)
    code, _, err = offline(cli, tmp_path / "plain.json", key)
    assert code == 2 and "no receipt" in err


def proven(cli: Cli, tmp_path: Path, body: Body) -> bool:
    file = tmp_path / "of_http.json"
    file.write_text(json.dumps(body))
    return offline(cli, file, tmp_path / "keys.json")[0] == 0


def test_every_way_in_returns_a_receipt(
    cli: Cli, key: Path, tmp_path: Path, small_store: Path, client_for: Any
) -> None:
    client = client_for(small_store, receipt_key=str(key))
    search = {"query": QUESTION, "receipt": True}
    changes = [{}, {"verbosity": "full", "diagnostics": False}, {"verbosity": "graph"}]
    requests = [("answer", ASKED | change) for change in (*changes, *[{"cache_key": "again"}] * 2)]
    for route, request in (*requests, ("search", search)):
        body = body_of(client.post(f"/v1/{route}", json=request))
        assert len(body["receipt"]["texts"]) == len(body["citations"]) > 0
        assert proven(cli, tmp_path, body), request
    assert client.post("/v1/answer", json=ASKED | {"receipt": False}).json()["receipt"] is None
    events = client.post("/v1/answer/stream", json=ASKED).text.split("\n\n")
    (last,) = (event for event in events if event.startswith("event: response"))
    assert proven(cli, tmp_path, json.loads(last.split("data: ", 1)[1]))
    message = tool_call("search_documentation", **search, numbers=True, max_response_tokens=None)
    accept = {"accept": "application/json, text/event-stream"}
    reply = client.post("/mcp", json=message, headers=accept).json()["result"]
    page = json.loads(reply["content"][0]["text"])
    assert page.pop("more") == 0
    assert proven(cli, tmp_path, page)
    published = client.get("/.well-known/docstokg-keys.json").json()
    assert published == json.loads((tmp_path / "keys.json").read_text())


def test_a_missing_key_refuses_receipts_and_publishes_nothing(
    small_store: Path, tmp_path: Path, client_for: Any
) -> None:
    client = client_for(small_store)
    problem = client.post("/v1/answer", json=ASKED)
    assert refusal(problem) == (400, "receipts_off")
    assert client.get("/.well-known/docstokg-keys.json").json() == {"keys": []}
    broken = client_for(small_store, receipt_key=str(tmp_path / "absent.pem"))
    body = broken.post("/v1/answer", json=ASKED).json()
    assert body["receipt"] is None and body["answer"]
    assert any(warning.startswith("There is no receipt") for warning in body["warnings"])
    assert broken.get("/.well-known/docstokg-keys.json").status_code == 503


def test_receipts_count_for_the_limit_before_being_signed(
    cli: Cli, saved: Path, key: Path, tmp_path: Path
) -> None:
    """From 400 kB to 20: first uncited passages go with their texts, at last the receipt."""
    base = json.loads(saved.read_text("utf-8"))
    cited = next(citation for citation in base["citations"] if citation["cited"])
    citations = [{**cited, "rank": 1}]
    texts = [text for text in base["receipt"]["texts"] if text["uuid"] == cited["uuid"]]
    for number in range(2, 40):
        name = f"passage-{number}"
        uuid = chunk_uuid("default", name)
        passage = f"Passage {number} says \u00e9. " + "Much more is said there. " * 400
        digest = hashlib.sha256(passage.encode()).hexdigest()
        fields = {"uuid": uuid, "chunk_id": name, "rank": number, "cited": False, "char_start": 0}
        fields |= {"snippet": passage[:20], "char_end": 20, "text_sha256": digest}
        citations.append({**citations[0], **fields, "offset_base": "chunk", "kg_evidence": None})
        texts.append({"uuid": uuid, "char_start": None, "text": passage})
    base |= {"citations": citations, "results_count": len(citations), "conflicts": []}
    base["receipt"]["texts"] = texts
    response = RAGResponse.model_validate_json(json.dumps(base))
    signer = ReceiptKeys.read(key.read_text(), "here")

    def cut(response: RAGResponse, limit: int) -> Body:
        reply, _ = reply_within(response, limit, with_diagnostics=True, sign=signer.sign)
        assert nested_json_bytes(reply.body) <= limit
        return dict(json.loads(reply.body))

    counts = []
    for limit in (1_000_000, 200_000, 60_000, 20_000):
        body = cut(response, limit)
        counts.append(len(body["citations"]))
        assert len(body["receipt"]["texts"]) == counts[-1]
        assert ("payload_trimmed" in body["diagnostics"]["degraded_reasons"]) == (limit < 1_000_000)
        assert proven(cli, tmp_path, body)
    assert 39 == counts[0] > counts[1] > counts[2] > counts[3] >= 1
    for limit in range(60_000, 70_000, 250):  # each drops another part of a passage's bytes
        cut(response, limit)
    big = response.receipt.model_copy(update={"settings_digest": "x" * 30_000})
    body = cut(response.model_copy(update={"receipt": big}), 30_000)
    assert body["receipt"] is None and len(body["citations"]) > 1
    assert "There is no receipt: it did not fit." in body["warnings"]
    inexact = {"metadata": {"id": 2**60}}
    odd = [response.citations[0].model_copy(update=inexact), *response.citations[1:]]
    body = cut(response.model_copy(update={"citations": tuple(odd)}), 10**6)
    assert body["receipt"] is None
    assert any("cannot be signed: 1152921504606846976" in warning for warning in body["warnings"])


def test_the_digest_names_the_settings_but_no_credential(
    key: Path, small_store: Path, client_for: Any
) -> None:
    def digest(**overrides: Any) -> str:
        client = client_for(small_store, receipt_key=str(key), **overrides)
        body = client.post("/v1/search", json={"query": QUESTION, "receipt": True}).json()
        return str(body["receipt"]["settings_digest"])

    assert digest() == digest() == digest(llm_api_key="secret") != digest(fusion="rrf")


def test_only_a_receipt_imports_cryptography(small_store: Path, key: Path, tmp_path: Path) -> None:
    ask = ["ask", QUESTION, "--index", f"sqlite:///{small_store}"]
    program = (
        "import sys\nfrom docstokg_local.cli.commands import app, run\n"
        f"assert run(app, {ask}) == 0\n"
        "assert 'cryptography' not in sys.modules\n"
        f"assert run(app, {[*ask, '--receipt', str(tmp_path / 'r.json')]}) == 0\n"
        "assert 'cryptography' in sys.modules\n"
    )
    done = ran(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr[-800:]


DATA: Body = {"receipt": {}}


def test_a_signature_is_one_text_only(key: Path) -> None:
    """Base64 has several texts for the same bytes; only one of them counts."""
    keys = ReceiptKeys.read(key.read_text(), "here")
    signature = keys.sign(DATA)
    assert keys.is_signed(keys.key_id, DATA, signature)
    others = [
        signature[:85] + chr(ord(signature[85]) + 1) + "==",
        f"{signature}\n",
        f" {signature}",
    ]
    assert base64.b64decode(others[0]) == base64.b64decode(signature)
    assert not any(keys.is_signed(keys.key_id, DATA, other) for other in others)


# Points of order 1, 2, 4 and 8, and two other encodings of order 1 (RFC 8032, section 5.1.3).
WEAK_POINTS = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("point", WEAK_POINTS)
def test_a_key_of_small_order_is_refused(point: str) -> None:
    x = base64.urlsafe_b64encode(bytes.fromhex(point)).decode().rstrip("=")
    keys = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]}
    with pytest.raises(Misconfigured, match="no Ed25519 key"):
        ReceiptKeys.read(json.dumps(keys), "keys.json")


def test_a_deeply_nested_key_set_is_refused() -> None:
    nested = '{"keys": ' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(Misconfigured, match="no Ed25519 key"):
        ReceiptKeys.read(nested, "keys.json")
