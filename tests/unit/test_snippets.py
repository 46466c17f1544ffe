import re

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer import relevance
from docstokg.domain.text import snippets

TEXT = (
    "The heart pumps blood. Seizures are sudden electrical events in the brain. "
    "They may follow a fever. Treatment depends on the cause."
)
SENTENCES = [(0, 22), (23, 74), (75, 99), (100, 131)]


def choose(question: str, limit: int, text: str = TEXT, sentences=SENTENCES) -> str:
    stems = snippets.question_stems(question)
    start, end = snippets.best_window(text, sentences, stems, limit)
    return text[start:end]


def test_whole_sentences_as_long_as_they_fit() -> None:
    assert choose("seizure fever", 80) == (
        "Seizures are sudden electrical events in the brain. They may follow a fever."
    )


def test_a_word_is_found_by_its_stem() -> None:
    text = "Nothing here. " * 9 + "A study of it. " + "Nothing here. " * 9
    spans = [(m.start(), m.end()) for m in re.finditer(r"[^.]+\.", text)]
    assert "study" in choose("studies", 40, text, spans)
    assert "student" not in choose("studies", 40, text.replace("study", "student"), spans)


def test_long_sentences_are_cut_at_words_around_matches() -> None:
    text = "word " * 100 + "seizure " + "tail " * 100
    window = choose("seizure", 120, text, [(0, len(text))])
    assert "seizure" in window
    assert len(window) <= 120
    assert not window.startswith("ord")


WORDS = st.lists(st.sampled_from(["alpha", "Beta", "ß", "İ", "\U0001f600", "gamma\n", "  "]))


@given(st.lists(WORDS, max_size=8), st.integers(1, 60), st.text(max_size=20))
def test_always_an_exact_piece_within_the_limit(parts, limit, question) -> None:
    text, sentences = "", []
    for words in parts:
        sentence = " ".join(words) + ". "
        sentences.append((len(text), len(text) + len(sentence)))
        text += sentence
    stems = snippets.question_stems(question)
    start, end = snippets.best_window(text, sentences, stems, limit)
    assert 0 <= start <= end <= len(text)
    assert end - start <= limit
    assert text[start:end] == text[start:end].strip()


@given(st.text(max_size=80), st.integers(1, 50))
def test_shortened_never_exceeds(text, limit) -> None:
    end = snippets.shortened(text, [(0, len(text))], 0, len(text), limit)
    assert 0 <= end <= min(max(limit, 0), len(text)) or end == len(text) <= limit


def test_relevance_is_monotone_and_bounded() -> None:
    for scale in (relevance.from_cosine, relevance.from_coverage):
        values = [scale(step / 50) for step in range(-50, 51)]
        assert values == sorted(values)
        assert 0 <= values[0] <= values[-1] <= 1
