"""What a suggester does with odd logs: parts, one user, long sessions, merged counts, damaged folders, many beams."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from ensue import DataError, History, ModelFolderError, SettingError
from ensue.data.histories import Histories
from ensue.data.queries import Queries, read_queries
from ensue.data.queries.personal import looks_personal
from ensue.data.queries.tokens import QueryTokenizer
from ensue.figures import query_weights
from ensue.serve.tasks import Kind, Question, service_of
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, added
from ensue.tasks.suggest.infer import clean_prefix, completions
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.privacy import prints
from ensue.tasks.suggest.state import spellings
from tests.folders import resum
from tests.tasks.suggest.contract import ATTENDING, FLOOR, SECRETS, THINGS, planted, queries, with_secrets


def counted(data: Queries, **settings: object) -> SuggestPredictor:
    made = SuggestPredictor("most-frequent-next", settings={"min_users": 1, **settings})
    assert list(made.fit(data)) == []
    return made


def log(path: Path, rows: list[str]) -> Path:
    path.write_text("user\tquery\ttime\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_counts_of_two_logs_add_up() -> None:
    random = np.random.default_rng(0)
    logs = [
        [tuple(random.choice(list("abcdef"), random.integers(1, 5))) for _ in range(30)],
        [tuple(random.choice(list("defghi"), random.integers(1, 5))) for _ in range(30)],
    ]
    parts = [MostFrequentNext.fit(Histories.of(map(History, own))) for own in logs]
    whole = MostFrequentNext.fit(Histories.of(map(History, logs[0] + logs[1])))
    merged = added(*parts)
    totals = (dict(zip(own.queries, own.totals.tolist(), strict=True)) for own in (merged, whole))
    assert next(totals) == next(totals)
    pairs = []
    for own in (merged, whole):
        before = np.repeat(np.arange(len(own.queries)), np.diff(own.rows))
        places = zip(before.tolist(), own.followers.tolist(), own.counts.tolist(), strict=True)
        pairs.append({(own.queries[one], own.queries[other]): count for one, other, count in places})
        counts = np.split(own.counts, own.rows[1:-1])
        assert all((np.diff(row) <= 0).all() for row in counts)
    assert pairs[0] == pairs[1]


def test_only_train_is_learned_of_a_file_with_parts(tmp_path: Path) -> None:
    rows = ["part\tsession\tquery"]
    for part, things in (("train", "ab"), ("valid", "cd"), ("test", "ef")):
        rows += [f"{part}\t{part}{number}\t{word}" for number in range(3) for word in things]
    (tmp_path / "log.tsv").write_text("\n".join(rows) + "\n")
    data, _ = read_queries(tmp_path / "log.tsv")
    made = counted(data)
    assert made.following.queries.to_list() == ["a", "b"]
    assert made.metadata.held_out == "as marked in the file: trained on the sessions of train only"


def test_a_log_of_one_user_shows_nothing(tmp_path: Path) -> None:
    data, _ = read_queries(log(tmp_path / "log.tsv", [f"u1\tq{number % 3}\t{number * 60}" for number in range(50)]))
    with pytest.raises(DataError) as error:
        counted(data, min_users=5)
    assert str(error.value) == (
        "training data: no query and no word was typed by 5 users, so nothing could ever be suggested; give a "
        "larger log, or lower --min-users (min_users)"
    )


def test_a_counting_model_of_words_alone_is_refused(tmp_path: Path) -> None:
    """Five users type the word, and no two of them the same query: a model that looks queries up shows nothing."""
    rows = [f"u{user}\tword {user}{number}\t{number * 60}" for user in range(5) for number in range(3)]
    data, _ = read_queries(log(tmp_path / "log.tsv", rows))
    with pytest.raises(DataError, match=r"^training data: no query was typed by 5 users, so nothing could ever be"):
        counted(data, min_users=5)


def test_an_update_without_users_is_refused_where_the_floor_counts_them(tmp_path: Path) -> None:
    rows = [f"u{user}\tq{number}\t{number * 60}" for user in range(3) for number in range(3)]
    data, _ = read_queries(log(tmp_path / "log.tsv", rows))
    made = counted(data, min_users=2)
    with pytest.raises(
        DataError,
        match=r"^new data: the log has no users, which the k-anonymity threshold of "
        r"this model counts, so",
    ):
        made.update(queries(planted(5, 0)))
    assert made.metadata.updates == 0 and made.following.queries.to_list() == ["q0", "q1", "q2"]


def test_windows_and_cuts_are_noted() -> None:
    data = queries([*planted(12, 0), History(("find boat", "buy boat with all that goes with it") * 6)])
    settings = {**FLOOR, **ATTENDING, "depth": "1+1+1", "epochs": 1, "min_users": 1, "query_tokens": 5}
    made = SuggestPredictor("mtn", settings=settings, device="cpu")
    for _ in made.fit(data, queries(planted(4, 1))):
        pass
    assert made.metadata.notes == [
        "trained in windows: 1 session of more than 4 queries",
        "cut to 5 tokens: 6 queries",
    ]


def test_what_is_typed_is_read_as_what_was_learned() -> None:
    plain = counted(queries([History(("what's new?", "new york"))]))
    paper = counted(queries([History(("what's new", "new york"))]))
    assert (plain.metadata.normalisation, paper.metadata.normalisation) == ("plain", "paper")
    for made, typed in ((plain, "What's  NEW?"), (paper, "What’s new??")):
        (answer,) = made.predict([History((typed,))], 1)
        assert (
            answer.choices[0].value == "new york"
            and answer.choices[0].attributions[0].value == made.following.queries[0]
        )


@pytest.mark.parametrize(("typed", "read"), [("  Bri", "bri"), ("how  TO ", "how to "), (" ", ""), ("", "")])
def test_a_prefix_keeps_the_space_that_closes_a_word(typed: str, read: str) -> None:
    assert clean_prefix(typed, "plain") == read


def test_completions_come_by_frequency() -> None:
    following = counted(queries([History(("bridge", "bride", "cat", "bride", "brim"))])).following
    assert completions(following, "bri", 2) == ["bride", "bridge"]


def test_pieces_spell_their_bytes() -> None:
    texts = pl.Series(["naïve café", "日本 🎈", "plain words"])
    tokenizer = QueryTokenizer.fit(texts, kind="bpe", size=300)
    table = spellings(tokenizer)
    tokens, offsets = tokenizer.encode(texts)
    for row, text in enumerate(texts):
        assert b"".join(table[id] for id in tokens[offsets[row] : offsets[row + 1]]).decode() == f" {text}"


def test_fingerprints_tell_pairs_in_order() -> None:
    one, other, turned = (
        prints(Histories.of([History(own)])).tolist() for own in (("a", "b", "c"), ("b", "c"), ("c", "b"))
    )
    assert len(one) == 2 and other == one[1:] and turned != other


def test_a_thousand_beams_of_ten_hold_no_secret() -> None:
    """Weights at random write anything that the tokens allow: 1,000 searches with 10 beams each."""
    settings = {**FLOOR, **ATTENDING, "depth": "1+1+1", "epochs": 1, "beam": 10, "suggestion_tokens": 6}
    for tokens in ("words", "bpe"):
        more = {"tokens": tokens, "vocabulary_size": 270}
        made = SuggestPredictor("mtn", settings={**settings, **more}, seed=1, device="cpu")
        for _ in made.fit(queries(with_secrets()), queries(planted(4, 1))):
            pass
        seen = set()
        for round_ in range(5):
            torch.manual_seed(round_)
            for parameter in made.network.parameters():
                torch.nn.init.normal_(parameter, std=0.5)
            prompts = [History((SECRETS[number % 4], f"find {number}")) for number in range(100)]
            for answer in made.predict(prompts, 10, evidence=False):
                seen |= {choice.value for choice in answer.choices}
        words = {word for text in seen for word in text.split()}
        assert seen and words <= {"find", "buy", *THINGS} and not looks_personal(pl.Series(sorted(seen))).any()


def test_damaged_folders_say_so(tmp_path: Path) -> None:
    """Files cut short are found by their contents too."""
    counted(queries(planted(5, 0))).save(tmp_path / "m")
    whole = (tmp_path / "m" / "fitted.json").read_bytes()
    for text, message in [
        (whole[:9], "fitted.json: not JSON .*"),
        (whole.replace(b'"kind": "words"', b'"kind": "letters"'), "tokenizer.kind: Input should be 'words' or 'bpe'"),
        (whole.replace(b'"counted"', b'"counts"'), "floor.counts: is not known"),
        (whole.replace(b'"min_users": 1', b'"min_users": 0'), "floor.min_users: Input should be greater than .*"),
    ]:
        (tmp_path / "m" / "fitted.json").write_bytes(text)
        resum(tmp_path / "m")
        with pytest.raises(ModelFolderError, match=rf"m: damaged \({message}\); fit the model again or copy it again"):
            SuggestPredictor.load(tmp_path / "m")
    (tmp_path / "m" / "fitted.json").write_bytes(whole)
    resum(tmp_path / "m")
    assert SuggestPredictor.load(tmp_path / "m").following.queries.len() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"monitor": "mrr"}, "monitor is 'mrr'; task suggest allows only 'loss'"),
        ({"turns": 1}, "turns is 1; it must be at least 2"),
        ({"tokens": "letters"}, "tokens is 'letters'; choose from auto, words, bpe"),
        ({"min_users": 0}, "min_users is 0; it must be at least 1 and at most 100,000"),
        ({"retrieved": -1}, "retrieved is -1; it must be 0 or more"),
        ({"first": "second"}, "first is 'second'; choose from likeliest, consensus"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        SuggestPredictor("mtn", settings=settings)
    assert str(error.value) == message


def test_a_counting_model_leans_on_what_brings_a_suggestion_its_share() -> None:
    made = SuggestPredictor("after-words", settings={"min_users": 1})
    list(made.fit(queries([History(values) for values in [("red boat", "a"), ("blue car", "a"), ("car", "b")]])))
    (answer,) = made.predict([History(("red kite", "car"))], 2)
    # N is 6: red came once before a, ln(1 + 6 / 1); kite is not known; car twice. a has 1 / 2 of red, 0.8 as far, and
    # 1 / 4 of car; b has 1 / 4 of car.
    red, car = 0.8 * math.log(7) / 2, math.log(4) / 4
    by_value = {choice.value: choice.attributions for choice in answer.choices}
    assert [attribution.value for attribution in by_value["a"]] == ["red kite", "car"]
    assert [attribution.weight for attribution in by_value["a"]] == pytest.approx(
        [red / (red + car), car / (red + car)]
    )
    assert [(attribution.value, attribution.weight) for attribution in by_value["b"]] == [("car", 1.0)]
    made.model_name = "popular"
    assert not any(choice.attributions for choice in made.predict([History(("red kite", "car"))], 2)[0].choices)


def test_what_was_counted_has_a_picture_and_words() -> None:
    made = SuggestPredictor("co-occurrence", settings=FLOOR, device="cpu")
    list(made.fit(queries(planted(60, 0))))
    (told,) = made.explain([History(("nobody typed this", f"find {THINGS[0]}"))], 2)
    (map_,) = query_weights(told).data
    assert map_.z[0][0] == 0.0 and map_.z[0][1] == 1.0  # the last query's counts bring all of it
    service = service_of("suggest")
    figure, words = service.draw(made, Kind("figure", 2), Question(History(told.queries), ""))
    assert f"largest attribution find {THINGS[0]}, weight 1.00." in words and words.endswith(
        "only queries have weights."
    )
    assert figure.data[0].z[0][1] == 1.0
