# ruff: noqa: F811 - a fixture of another file
"""Other languages and other encoders, asked of the embedded index and of the real server."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.records import Scope, VectorRow
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.vectors import pack
from docstokg.errors import Misconfigured, Unavailable
from docstokg.loading.transfer.contents import index_rows
from tests.contract.test_search_index import (
    DIMENSION,
    Store,
    axis,
    chunk,
    fill,
    in_sqlite,
    search,
    seen,
    seizure,
    store,  # noqa: F401 - a fixture
    uid,
)
from tests.plans import soon

# Language: a passage, another one on nothing alike, and a question that inflects or spells
# its words differently. Written for this test.
LANGUAGES = {
    "de": ("Die größten Häuser stehen am Fluss.", "Im Winter schlafen viele Igel.",
           "Welches Haus ist das GRÖSSTE?"),
    "es": ("Las canciones antiguas hablan del mar.", "El tren llega por la noche.",
           "¿Qué dice la cancion antigua?"),
    "fr": ("Les chevaux noirs mangent des pommes.", "La pluie tombe sur la ville.",
           "Que mangeait le cheval noir, une pomme ?"),
    "it": ("I gatti dormivano nelle case vecchie.", "Il treno parte domani.",
           "Dove dorme un gatto, in quale casa?"),
    "pt": ("As crianças aprendem línguas depressa.", "O barco chegou ao porto.",
           "Como aprende uma crianca?"),
    "ru": ("Ёлки растут в северных лесах.", "Поезд приходит вечером.", "Где растёт елка в лесу?"),
    "tr": ("Işıklı evlerde kitaplar okunur.", "Deniz bugün sakin.", "IŞIKLI evde kitap var mı?"),
    "ar": ("الكتب القديمة في المكتبات الكبيرة.", "يصل القطار في المساء.", "أين المكتبة الكبيرة؟"),
    "hi": ("हिन्दी की पुस्तकें पुस्तकालय में रखी हैं।", "रेलगाड़ी शाम को आती है।", "पुस्तकालय कहाँ है?"),
    "zh": ("黄河是中国第二长的河流。", "火车晚上到达车站。", "黄河有多长?"),
    "ja": ("富士山は日本で一番高い山です。", "電車は夜に着きます。", "日本の富士山はどこですか"),
    "th": ("แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพ", "รถไฟมาถึงตอนเย็น", "เจ้าพระยาอยู่ที่ไหน"),
    "ko": ("한강은 서울을 가로지르는 강입니다.", "기차가 저녁에 도착합니다.", "서울의 한강에서"),
    "vi": ("Cây dừa mọc bên bờ biển.", "Con tàu đến vào buổi tối.", "cây dừa ở đâu?"),
}  # fmt: skip


def hits_of(store: Store, namespace: str, channel: str, **query: Any) -> list[str]:
    """Return the uuids that one channel finds."""
    queries = [ChannelQuery(**{"channel": channel, "size": 5, **query})]
    (result,) = store.index.search(queries, Scope(namespace=namespace), soon())
    assert result.failure is None
    return seen(result)


def test_each_language_matches_the_forms_of_its_words(
    store: Store,
) -> None:
    english = chunk("en", "The war about the houses ended.", namespace="de")
    rows = [
        chunk(f"{at}", text, namespace=language, language=language)
        for language, texts in LANGUAGES.items()
        for at, text in enumerate(texts[:2])
    ]
    fill(store, english, *rows)
    info = store.index.info(soon())
    every = {language: {language: 1.0} for language in LANGUAGES}
    assert info.languages == every | {"de": {"de": 2 / 3, "en": 1 / 3}}
    for language, (_, _, question) in LANGUAGES.items():
        uuids = hits_of(store, language, "bm25", text=question)
        assert uuids == [uid("0", language)], language
    # `war` says nothing in German, and is what the English question is about.
    assert hits_of(store, "de", "bm25", text="When was the war?") == [uid("en", "de")]
    store.writer.open_load("run-2", None, None, None)
    store.writer.delete("de", [uid("0", "de")])
    store.writer.close_load()
    assert not hits_of(store, "de", "bm25", text="Welches Haus?")
    assert rows[2] in [row for row, _ in store.writer.stored_chunks("es")]


def test_namespaces_keep_the_encoder_of_their_first_load(tmp_path: Path) -> None:
    """In one file, that is: an index on a server has one space, see the test above of models."""
    with in_sqlite(tmp_path) as store:
        fill(store, seizure("a"))
        wide = {name: pack([float(name == place) for place in "abcdefghijklmnop"]) for name in "ab"}
        store.writer.open_load("run-2", "model-b", 16, "sparse-a", "other")
        rows = [chunk(name, "Fits.", namespace="other", vector=wide[name]) for name in "ab"]
        store.writer.put([(row, "mark") for row in rows])
        store.writer.close_load()
        with pytest.raises(Misconfigured, match="reembed"):
            store.writer.open_load("run-3", "model-a", DIMENSION, "sparse-a", "other")
        info = store.index.info(soon())
        assert (info.model_of("ns"), info.model_of("other")) == ("model-a", "model-b")
        assert seen(search(store)["dense"]) == [uid("a")]
        nearest = partial(hits_of, store, "other", "dense", size=1)
        assert nearest(vector=wide["b"]) == [uid("b", "other")]
        moved = [VectorRow(uid(n, "other"), f"new {n}", axis(at), b"") for at, n in enumerate("ab")]

        def killed() -> Iterator[VectorRow]:
            yield moved[0]
            raise Unavailable("killed")

        before = list(index_rows(store.writer, "other"))
        with pytest.raises(Unavailable, match="killed"):
            store.writer.replace_vectors("other", "model-a", DIMENSION, killed())
        assert list(index_rows(store.writer, "other")) == before
        assert nearest(vector=wide["b"]) == [uid("b", "other")]
        store.writer.replace_vectors("other", "model-a", DIMENSION, moved)
        assert store.index.info(soon()).spaces == {}
        assert nearest(vector=axis(1)) == [uid("b", "other")]
        assert store.writer.fingerprints("other", [uid("a", "other")])[uid("a", "other")] == "new a"
