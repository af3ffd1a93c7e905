from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from importlib.resources import files

import numpy as np
import pytest

from ensue.data.near_copies import near_copies
from ensue.data.queries.personal import looks_personal
from ensue.demo.town import MISREAD, VALID_DAY, Town, histories_of, make_town, queries_of, texts_of
from ensue.vocabulary import FIRST
from tests.demo.small_demo import small_story

TOWN = json.loads((files("ensue.demo") / "town.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def story() -> Town:
    return small_story()


def test_the_town_hangs_together() -> None:
    articles = {one["id"] for one in TOWN["articles"]}
    assert len(TOWN["people"]) == len(set(TOWN["people"])) == 64
    assert {one["interest"] for one in TOWN["articles"]} == set(TOWN["interests"])
    assert {name for one in TOWN["interests"].values() for name in one["reads"]} == articles
    assert {name for one in TOWN["interests"].values() for name in one["searches"]} == set(TOWN["searches"])
    about = [TOWN["neutral"], TOWN["sentences"]["about"], *(one["about"] for one in TOWN["feelings"].values())]
    assert all("{topic}" in text.lower() for texts in about for text in texts)
    said = [*about, TOWN["sentences"]["remarks"], *(one["remarks"] for one in TOWN["feelings"].values())]
    named = {name.lower() for texts in said for text in texts for name in re.findall(r"{(\w+)}", text)}
    assert named - {"topic", "other", "mood", "sort", "feel"} == set(TOWN["words"])
    for one in TOWN["feelings"].values():
        assert {"mood", *(("sort", "feel") if one["common"] else ())} <= set(one)
    wordings = [wording for found in TOWN["searches"].values() for wording in found]
    assert len(wordings) == len(set(wordings))


def test_articles_are_in_order_and_are_no_copies_of_each_other(story: Town) -> None:
    days = [story.published[article.id] for article in story.articles]
    assert days == sorted(days)
    assert max(days) < VALID_DAY
    import polars as pl

    texts = pl.Series([article.body for article in story.articles])
    assert near_copies(texts).tolist() == list(range(len(texts)))


def test_who_posts_is_the_first_who_passes_it_on(story: Town) -> None:
    cascades = [record for part in story.parts for record in part.records()]
    assert [record.id for record in cascades] == [one.post.id for one in story.posts]
    assert [record.values[0] for record in cascades] == [one.author for one in story.posts]
    assert [record.times[0] for record in cascades] == [one.time for one in story.posts]
    assert all(one.time <= other.time for one, other in zip(story.posts, story.posts[1:], strict=False))


def test_the_edges_carry_the_cascades(story: Town) -> None:
    test, parents = story.cascades.test, story.cascades.true_parents
    name = test.vocabulary.value
    for event, parent in enumerate(parents.tolist()):
        if parent >= 0:
            assert (name(int(test.ids[parent])), name(int(test.ids[event]))) in story.cascades.edges


def test_nobody_reads_or_writes_about_an_article_before_it_is_out(story: Town) -> None:
    for session in story.reading:
        assert all(story.published[value] <= session.day for value in session.history.values)
        assert len(set(session.history.values)) == len(session.history.values)
    for one in story.posts:
        assert all(story.published[name] <= story.day_of(one.time) for name in one.post.about)


def test_the_same_people_are_in_all_logs(story: Town) -> None:
    people = set(story.people)
    assert {one.author for one in story.posts} <= people
    assert {one.person for one in (*story.reading, *story.searching)} <= people
    loyal = [one.interest == story.people[one.person] for one in (*story.reading, *story.searching)]
    assert np.mean(loyal) > 0.8  # 0.85 keep to their interest, and a sixth of the others draw it by chance


def test_labels_are_what_was_felt_but_for_a_few(story: Town) -> None:
    posts = make_town(num_posts=1000, num_reads=10, num_searches=10).posts
    labelled = [one for one in posts if one.label is not None]
    wrong = np.mean([one.label != one.feeling for one in labelled])
    assert abs(wrong - MISREAD) <= 4 * np.sqrt(MISREAD * (1 - MISREAD) / len(labelled))
    assert all((one.label is None) == (one.feeling is None) for one in posts)
    assert {text.label for text in texts_of(posts)} == set(TOWN["feelings"])
    kinds = Counter((bool(one.post.about), one.label is not None) for one in posts)
    assert not any("{" in one.post.text for one in posts)
    assert set(kinds) == {(True, True), (True, False), (False, False)}
    assert min(kinds.values()) > 100


def test_private_searches_stay_below_every_floor(story: Town) -> None:
    queries = queries_of(story.searching)
    values = queries.histories.vocabulary.values
    typed = {value: int(count) for value, count in zip(values, queries.users, strict=True)}
    assert {typed[text] for text in TOWN["private"]} == {1}
    assert not looks_personal(queries.words).any()


def test_users_are_counted_as_people_not_as_searches(story: Town) -> None:
    queries = queries_of(story.searching)
    asked = "lantern bridge closed"
    people = {one.person for one in story.searching if asked in one.history.values}
    assert queries.users[queries.histories.vocabulary.id(asked) - FIRST] == len(people)


def test_the_true_chances_of_what_is_read_and_searched_sum_to_one(story: Town) -> None:
    session = story.reading[-1]
    assert sum(story.next_read(session.history.values[:1], session.day).values()) == pytest.approx(1)
    found = story.next_search(("lantern bridge closed",))
    assert sum(found.values()) == pytest.approx(1)
    # Each way to type the same thing has its share: 0.65 the first, 0.35 the other of two.
    assert found["bus 4 timetable"] / found["line 11 new times"] == pytest.approx(0.65 / 0.35)


def test_who_is_heard_most_often_is_the_likeliest_to_pass_on(story: Town) -> None:
    source, target = min(story.cascades.edges)
    heard = story.next_sharer((source,))
    assert heard[target] == 1
    assert source not in heard
    assert sum(heard.values()) == sum(edge[0] == source for edge in story.cascades.edges)


def test_one_seed_is_one_story() -> None:
    def said(seed: int) -> str:
        story = small_story(seed=seed)
        rows = (story.posts, story.reading, story.searching)
        return json.dumps([[asdict(one) for one in part] for part in rows])

    assert said(3) == said(3)
    assert said(3) != said(4)


def test_sessions_become_columns(story: Town) -> None:
    histories = histories_of(story.reading)
    assert len(histories) == len(story.reading)
    assert histories.record(0) == story.reading[0].history
