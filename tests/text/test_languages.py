"""Languages told by script and common words; what cannot be told is left open."""

from __future__ import annotations

import polars as pl
import pytest

from ensue.text.languages import LETTERS, WORDS, languages_of, other_languages, scripts_of

TOLD = {
    "The ferry is full again and nobody was there to help us": "English",
    "Die Fähre fährt jetzt auch in der Nacht und das ist gut": "German",
    "Le bac part aussi la nuit, ce qui est bien pour les gens du port": "French",
    "El barco sale también por la noche y eso es bueno para todos": "Spanish",
    "Il traghetto parte anche di notte e questo è un bene per tutti": "Italian",
    "Prom pływa też w nocy i to jest dobre, bo nie ma mostu": "Polish",
    "Паром теперь ходит и ночью, это хорошо для всех": "Russian",
    "Пором тепер ходить і вночі, це добре для всіх": "Ukrainian",
    "το πλοίο φεύγει": "Greek",
    "フェリーは夜も運航します": "Japanese",
    "渡轮现在晚上也开": "Chinese",
    "العبارة تبحر الآن في الليل وهذا جيد من أجل الجميع على الميناء": "Arabic",
}


@pytest.mark.parametrize("text", TOLD)
def test_languages_by_their_words(text: str) -> None:
    assert languages_of(pl.Series([text])).to_list() == [TOLD[text]]


@pytest.mark.parametrize("text", ["", "12:30 !!", "Ferry?", "lol ok", "de la", "Harbour captain storm"])
def test_too_little_is_not_told(text: str) -> None:
    assert languages_of(pl.Series([text])).to_list() == [None]


def test_scripts_by_most_letters() -> None:
    assert scripts_of(pl.Series(["RT Паром ходит", "@anna 渡轮", "漢字かな", "…"])).to_list() == [
        "Cyrillic",
        "Latin",
        "Japanese",
        None,
    ]


def test_posts_in_a_language_that_the_articles_lack() -> None:
    german, russian, english = (list(TOLD)[place] for place in (1, 6, 0))
    posts = pl.Series([english, german, russian, "ნავი", "lol ok", ""])
    assert other_languages(posts, pl.Series([english])).to_list() == ["", "German", "Russian", "Georgian", "", ""]
    assert other_languages(posts, pl.Series([german, russian])).to_list() == ["English", "", "", "Georgian", "", ""]
    # Of articles too short to tell, the script alone.
    assert other_languages(posts, pl.Series(["Ferry"])).to_list() == ["", "", "Russian", "Georgian", "", ""]
    assert other_languages(pl.Series(["ы ы"]), pl.Series(["Ferry"])).to_list() == ["Cyrillic script"]


def test_lists_of_words_are_words() -> None:
    named = {language for languages in LETTERS.values() for language in languages}
    assert named <= set(WORDS)
    assert all(words == words.lower() and len(words.split()) >= 15 for words in WORDS.values())
