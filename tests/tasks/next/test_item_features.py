"""Items with features: tables of any form, tokens, cold items, folders, updates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from ensue import DataError, History, ModelFolderError, NextEvent, SettingError, compare, load
from ensue.data.histories import CATEGORY, IGNORE, NUMBER, TEXT, TIME, Histories, Items
from ensue.data.items import read_items
from ensue.evaluation.new_items import NewItemBaselines
from ensue.learning.state import module_of
from ensue.metrics import MISS
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.item_features import ColumnEncoder, FeatureEncoder
from ensue.tasks.next.training_data import Exclusion
from tests import encoders
from tests.folders import resum

KINDS = ("boat", "tea", "moss")
TABLE = "sku,title,topic,price,added\n" + "".join(
    f"{kind}{number},The {kind} no {number},{kind},{number + 10 * place}.5,2024-01-{number + 10:02}\n"
    for place, kind in enumerate(KINDS)
    for number in range(9)
)
"""Nine items of each kind; no session holds the last of each."""


def sessions(seed: int, number: int = 240) -> list[list[str]]:
    """Sessions of four different items of one kind."""
    draw = np.random.default_rng(seed)
    return [[f"{KINDS[row % 3]}{item}" for item in draw.choice(8, 4, replace=False)] for row in range(number)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "items.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> NextEvent:
    path = tmp_path_factory.mktemp("items") / "items.csv"
    path.write_text(TABLE)
    model = NextEvent("core", dim=16, epochs=6, min_steps=150, refit=False)
    return model.fit(sessions(1), items=path)


def test_columns_get_their_types_from_values_names_and_options(table: Path) -> None:
    items, warnings = read_items(table)
    assert warnings == () and len(items) == 27 and items.title == "title"
    assert items.kinds == {"title": TEXT, "topic": CATEGORY, "price": NUMBER, "added": TIME}
    stated, _ = read_items(table, columns={"topic": IGNORE, "title": "topic"})
    assert stated.title == "topic" and stated.kinds["topic"] == IGNORE
    with pytest.raises(SettingError, match="topic=colour is no type; choose from category, text"):
        read_items(table, columns={"topic": "colour"})


def test_headers_of_recbole_say_the_type(tmp_path: Path) -> None:
    path = tmp_path / "ml.item"
    path.write_text("item_id:token\tmovie_title:token_seq\trelease_year:token\tscore:float\n1\tToy Story\t1995\t2.5\n")
    items, _ = read_items(path)
    assert items.kinds == {"movie_title": TEXT, "release_year": CATEGORY, "score": NUMBER}
    assert items.titles() == {"1": "Toy Story"}


@pytest.mark.parametrize(
    ("text", "columns", "refusal"),
    [
        ("colour,size\nred,3\n", {}, r"t.csv: no column is known as the item; .*--item-columns item=colour"),
        ("sku,size\nred,3\n", {"item": "id"}, r"t.csv: column 'id' is missing; the columns are 'sku', 'size'"),
        ("item,size\nred,3\n", {"title": "words"}, r"t.csv: column 'words' is missing"),
        ("item,size\nred,3\n", {"brand": "category"}, r"t.csv: column 'brand' is missing"),
        ("item\nred\n", {}, r"t.csv: has no column besides the item"),
        ("item,title\n", {}, r"t.csv: has a header but no item"),
        (
            "item,code\na,x1\nb,x2\n",
            {},
            r"t.csv: no column is a feature; give 'code' a type, as in --item-columns code=t",
        ),
        (
            "item,title\na,x\nb,y\na,z\n",
            {},
            r"t.csv, line 4: item 'a' has other values than in t.csv, line 2; keep one",
        ),
        ("item,size\na,3\nb,big\n", {"size": "number"}, r"t.csv, line 3: size 'big' is not a number; .*size=category"),
        ("item,size\na,3\nb,inf\n", {}, r"t.csv, line 3: size 'inf' is not a number"),
        ("item,added\na,2024-01-02\nb,2024-13-40\n", {}, r"t.csv, line 3: time '2024-13-40' is not a time"),
        ("item,added\na,today\n", {"added": "time"}, r"t.csv, line 2: time 'today' is not a time"),
    ],
)
def test_bad_tables_are_refused_in_a_line(
    text: str, columns: dict[str, str], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    with pytest.raises(DataError, match=f"^{refusal}"):
        read_items("t.csv", columns=columns)


def test_a_feature_may_be_called_item(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sku,item,title\n1,a,red one\n2,a,red two\n")
    items, _ = read_items(tmp_path / "t.csv", columns={"item": "sku", "title": "title"})
    assert items.ids.to_list() == ["1", "2"] and items.columns["item"].to_list() == ["a", "a"]


def test_cells_without_a_value_are_empty_and_copies_of_a_row_are_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("item,title,price\n7.0,old name,2.5\n8,other,NaN\n9,NULL,\n7,old name,2.5\n,nameless,1\n")
    items, warnings = read_items(path)
    assert items.titles() == {"7": "old name", "8": "other"} and items.kinds == {"title": TEXT, "price": NUMBER}
    assert items.columns["price"].to_list() == ["2.5", None, None]
    assert warnings == (
        f"1 of 5 items has no item (an empty cell in column 'item', first in {path}, line 6): left out",
    )


def test_tokens_are_categories_words_and_knots() -> None:
    columns = pl.DataFrame(
        {
            "genre": ["a|b", "b", "b;c", None],
            "words": ["blue sea", "Sea sand", "blue", ""],
            "size": ["0", "5", "10", None],
        }
    )
    items = Items(pl.Series(["1", "2", "3", "4"]), columns, {"genre": CATEGORY, "words": TEXT, "size": NUMBER})
    encoder = FeatureEncoder.fit(items, pl.Series([True] * 4), None, None)
    genre, words, size = encoder.columns
    assert genre.values == ("b",) and words.values == ("blue", "sea")  # "a", "c" and "sand" are those of one item
    assert size.knots[0] == 0 and size.knots[-1] == 10 and encoder.num_tokens == 1 + 1 + 2 + len(size.knots)
    tokens, weights = encoder.encode(items)
    assert tokens[0, :4].tolist() == [0, 1, 2, 3] and weights[0, :4].tolist() == pytest.approx([1, 1, *[0.5**0.5] * 2])
    assert tokens[3].tolist() == [0] * tokens.shape[1] and float(weights[3].sum()) == 1
    # The knots around a number are weighted by how near they are: their weighted sum is the number.
    knots = dict(zip(range(4, 4 + len(size.knots)), size.knots, strict=True))
    for row, number in enumerate((0, 5, 10)):
        parts = zip(tokens[row, 4:].tolist(), weights[row, 4:].tolist(), strict=True)
        assert sum(knots.get(token, 0.0) * weight for token, weight in parts) == pytest.approx(number)


def test_an_item_without_events_is_recommended_where_it_fits(fitted: NextEvent) -> None:
    cold = {f"{kind}8" for kind in KINDS}
    for kind in KINDS:
        answer = fitted.predict([[f"{kind}0", f"{kind}1"]], k=30)[0]
        ranked = [choice.value for choice in answer.choices]
        assert f"{kind}8" in ranked[:10] and all(
            ranked.index(f"{kind}8") < ranked.index(o) for o in cold - {f"{kind}8"}
        )
        assert answer.choices[0].title == f"The {kind} no {answer.choices[0].value[-1]}"
    assert "title" in fitted.predict([["boat0"]]).to_frame().columns


def test_frames_give_the_same_bytes(fitted: NextEvent, table: Path, tmp_path: Path) -> None:
    for frame in (pl.read_csv(table), pd.read_csv(table)):
        again = NextEvent("core", dim=16, epochs=6, min_steps=150, refit=False).fit(sessions(1), items=frame)
        assert again.predict([["tea1"]]).scores == fitted.predict([["tea1"]]).scores


def test_a_folder_keeps_the_table(fitted: NextEvent, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    kept = load(tmp_path / "m")
    assert isinstance(kept, NextEvent)
    assert [*kept.predict([["tea1"], ["moss2", "moss3"]])] == [*fitted.predict([["tea1"], ["moss2", "moss3"]])]
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert {"items.parquet", "items.json", "item_features.safetensors"} <= names


@pytest.mark.parametrize("model", ["core", "sansr", "gru4rec", "narm", "stamp", "hidan", "blend", "cascade-blend"])
def test_every_network_reads_features(model: str, table: Path, tmp_path: Path) -> None:
    model_settings = {"min_steps": 1} if model in ("core", "blend") else {}
    first, again = (
        NextEvent(model, epochs=1, refit=False).set_params(**model_settings).fit(sessions(2, 60), items=table)
        for _ in range(2)
    )
    query = ["tea1", "tea2"]
    answer = first.predict([query], k=40)
    assert answer.scores == again.predict([query], k=40).scores and "tea8" in answer.values[0]
    # A longer session beside it pads the batch, and an item with more tokens pads the table: neither is seen.
    beside = first.predict([query, ["boat1", "boat2", "boat3", "boat4"]], k=40)
    assert beside.values[0] == answer.values[0] and beside.scores[0] == pytest.approx(answer.scores[0], abs=1e-6)
    known = first.similar(["tea1"], k=26)[0]
    (tmp_path / "new.csv").write_text(f"sku,title,topic,price,added\ntea99,{'The tea no ' * 8},tea,25,2024-01-12\n")
    first.update([], items=tmp_path / "new.csv")
    assert "tea99" in first.predict([query], k=40).values[0]
    near = [choice for choice in first.similar(["tea1"], k=27)[0] if choice.value != "tea99"]
    assert [choice.value for choice in near] == [choice.value for choice in known]


def test_only_items_of_the_table_are_answers_without_events(table: Path) -> None:
    plain = NextEvent("sansr", epochs=1, refit=False).fit(sessions(2, 60))
    assert "tea8" not in plain.predict([["tea1", "tea2"]], k=40).values[0]


def test_a_table_of_other_items_is_refused(table: Path) -> None:
    with pytest.raises(DataError, match=r"none of the 27 items is in the training data; .*'boat0', the data 'x'"):
        NextEvent("core", epochs=1).fit([["x", "y"], ["y", "x"]], items=table)


def test_texts_are_encoded_by_word_vectors_or_a_sentence_encoder(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders.install(monkeypatch)
    words = ("the", "boat", "tea", "moss", "no", "ship")
    lines = (f"{word} {' '.join(str(float(word == other)) for other in words)}\n" for word in words)
    (tmp_path / "words.txt").write_text("".join(lines))
    vectors, encoder = {"vectors": str(tmp_path / "words.txt")}, {"encoder": "stand-in"}
    new = tmp_path / "new.csv"
    new.write_text("sku,title,topic,price,added\ntea99,The tea no 8,,,\n")
    for settings in (vectors, encoder):
        model = NextEvent("core", dim=16, epochs=1, min_steps=1, refit=False).set_params(**settings)
        model.fit(sessions(1, 60), items=table, item_columns={"topic": "ignore"}).save(tmp_path / next(iter(settings)))
        for fitted in (model, load(tmp_path / next(iter(settings)))):
            fitted.update([], items=new)
        assert isinstance(fitted, NextEvent) and fitted.predict([["tea1"]]).scores == model.predict([["tea1"]]).scores
        known = model.predictor_.known_items
        assert known is not None
        title = known.encoder.columns[0]
        tokens, weights = known.encoder.encode(known.items)
        assert np.array_equal(tokens[0, 1 : 1 + title.num_tokens], np.arange(1, 1 + title.num_tokens))
        lengths = np.linalg.norm(weights[:, 1 : 1 + title.num_tokens], axis=1)
        np.testing.assert_allclose(lengths, np.ones(len(known.items)), rtol=1e-5)
    with pytest.raises(SettingError, match="vectors and encoder are given"):
        NextEvent("core", epochs=1).set_params(**vectors, **encoder).fit(sessions(1, 9), items=table)
    with pytest.raises(SettingError, match="give items too, or remove them"):
        NextEvent("core", epochs=1, encoder="stand-in").fit(sessions(1, 9))
    (tmp_path / "words.txt").unlink()
    with pytest.raises(SettingError, match=r"words.txt'; no such file"):
        NextEvent("core").set_params(**vectors)
    folder = load(tmp_path / "vectors")  # it holds what updates need of the words
    assert isinstance(folder, NextEvent)
    folder.update([], items=new)
    assert "tea99" in folder.predict([["tea1"]], k=40).values[0]


def test_compare_gives_the_table_to_networks_alone(table: Path) -> None:
    core = NextEvent("core", dim=8, epochs=1, min_steps=1, refit=False)
    held_out = [["tea1", "tea2", "tea8"], ["boat1", "boat2"]]
    result = compare(["markov", core], sessions(1, 60), held_out, items=table)
    by_item = {row.model: row.notes["by_item"] for row in result.rows}
    assert by_item["core"]["new"]["targets"] == by_item["markov"]["new"]["targets"] == 1
    assert by_item["core"]["new"]["mrr"] > 0 == by_item["markov"]["new"]["mrr"]
    # Baselines alone keep it for rules, and rank as without it.
    (counted, *_) = compare(["markov"], sessions(1, 60), held_out, items=table).rows
    assert counted.figures == next(row for row in result.rows if row.model == "markov").figures


def test_new_items_are_ranked_by_features_and_counts_too(fitted: NextEvent) -> None:
    pairs = [(f"{kind}{number}", f"{kind}{(number + 1) % 8}", f"{kind}8") for number in range(8) for kind in KINDS]
    held_out = [History(values, (10.0 * row, 10.0 * row + 1, 10.0 * row + 2)) for row, values in enumerate(pairs)]
    model, *baselines = fitted.evaluate(held_out, cutoffs=[3, 5]).rows
    new, by_baseline = model.notes["by_item"]["new"], model.notes["new_items_by"]
    assert {name: metrics["targets"] for name, metrics in by_baseline.items()} == {
        "nearest features": 24,
        "popularity": 24,
    }
    assert new["mrr"] > by_baseline["nearest features"]["mrr"] > by_baseline["popularity"]["mrr"] > 0
    assert all("new_items_by" not in row.notes for row in baselines)
    untimed = fitted.evaluate([list(values) for values in pairs], cutoffs=[3, 5]).rows[0].notes["new_items_by"]
    assert [*untimed] == ["nearest features"]
    sampled = fitted.evaluate(held_out, protocol="sampled").rows[0].notes
    assert "new_items_by" not in sampled and sampled["by_item"]["new"]["targets"] == 24


def test_trained_items_are_hit_as_often_by_baselines_of_new_items(fitted: NextEvent) -> None:
    predictor = fitted.predictor_
    pairs = [(f"{kind}{number}", f"{kind}{(number + 1) % 8}", f"{kind}8") for number in range(8) for kind in KINDS]
    data = Histories.of([History(values) for values in pairs]).encode(predictor.vocabulary)
    ranks = np.full(len(data.ids), MISS)
    rank, _, events = predictor.ranks(data)
    ranks[events] = rank
    trained = np.tile([False, True, False], len(pairs))
    for k in (2, 3, 4):
        (nearest,) = NewItemBaselines(predictor, data, Exclusion.NONE).ranks(ranks, k).values()
        assert (nearest[trained] <= k).sum() == (ranks[trained] <= k).sum()
        assert np.isfinite(nearest[2::3]).all() and not np.isfinite(nearest[::3]).any()


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"title": "brand"}, "column brand .title. is missing"),
        ({"id_column": 7}, "id_column"),
        ({"kinds": {"title": "colour"}}, "the encoder is not that of the columns"),
        ({"encoder": []}, "the encoder is not that of the columns"),
        ({"more": 1}, "more"),
    ],
)
def test_damaged_tables_of_a_folder_are_refused(
    change: dict[str, object], refusal: str, fitted: NextEvent, tmp_path: Path
) -> None:
    fitted.save(tmp_path)
    described = json.loads((tmp_path / "items.json").read_text())
    (tmp_path / "items.json").write_text(json.dumps(described | change))
    resum(tmp_path)
    with pytest.raises(ModelFolderError, match=refusal):
        load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"values": ["b", "a"]}, {"values": ["a", "a"]}, {"knots": [1.0]}, {"kind": "colour"}]
)
def test_damaged_encoders_are_refused(change: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="column topic"):
        ColumnEncoder(**{"name": "topic", "kind": CATEGORY, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["core", "gru4rec", "hidan"])
def test_a_table_leaves_the_scores_of_trained_items_as_they_are(model: str, table: Path) -> None:
    plain = NextEvent(model, epochs=1, refit=False).fit(sessions(2, 60))
    with_table = NextEvent(model, epochs=1, refit=False).fit(sessions(2, 60), items=table)
    num_trained, (batch,) = len(plain.predictor_.vocabulary), _batches(plain)
    with torch.no_grad():
        scores, scores_with_table = (
            module_of(made.predictor_.network).eval()(batch).scores for made in (plain, with_table)
        )
    assert len(with_table.predictor_.vocabulary) == num_trained + 3
    torch.testing.assert_close(scores_with_table[:, :num_trained], scores, rtol=1e-5, atol=1e-5)


def _batches(fitted: NextEvent) -> list[Batch]:
    """The steps of a few sessions, as one batch."""
    data = Histories.of([History(tuple(values)) for values in sessions(3, 8)])
    windows = Windows(data.encode(fitted.predictor_.vocabulary), fitted.predictor_.network.reach)
    return [windows.batch(np.arange(len(windows))).to("cpu")]


def test_rows_of_new_items_follow_the_table_until_they_have_events(fitted: NextEvent, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert isinstance(model, NextEvent)

    def row_of(item: str) -> torch.Tensor:
        predictor = model.predictor_
        rows = dict(predictor.module.named_parameters())["items.weight"].detach()
        return rows[predictor.vocabulary.id(item)].clone()

    rows = "".join(f"{item},The moss no 8,moss,22.5,2024-01-18\n" for item in ("boat1", "tea8", "moss99"))
    (tmp_path / "new.csv").write_text("sku,title,topic,price,added\n" + rows)
    trained, untrained = row_of("boat1"), row_of("tea8")
    model.update([], items=tmp_path / "new.csv")
    assert torch.equal(row_of("boat1"), trained) and not torch.equal(row_of("tea8"), untrained)
    assert torch.equal(row_of("tea8"), row_of("moss99"))
    model.update([["tea1", "tea8", "tea2"]] * 8)
    updated = row_of("tea8")
    model.update([], items=tmp_path / "new.csv")
    assert torch.equal(row_of("tea8"), updated)
