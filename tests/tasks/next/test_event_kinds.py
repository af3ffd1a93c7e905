"""Kinds and weights of events: how they are read, how they train, and metrics per kind."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
import torch

import ensue
from ensue.data.histories import Histories, append_histories
from ensue.data.sequences import read
from ensue.errors import DataError, SettingError
from ensue.nn.item_head import ItemHead
from ensue.nn.sampling import linear_cross_entropy
from ensue.predictor import make
from ensue.tasks.next.baselines.counting import Markov, Popularity
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST
from tests.cli.conftest import Ensue, run

ROWS = [
    ("s1", "a", "view", 1.0),
    ("s1", "b", "impression", 1.0),
    ("s1", "c", "impression", 1.0),
    ("s1", "c", "view", 0.5),
    ("s1", "d", "purchase", 1.0),
    ("s1", "e", "impression", 1.0),
    ("s2", "a", "view", 1.0),
    ("s2", "b", "dislike", 1.0),
    ("s2", "d", "view", 2.0),
    ("s3", "a", "dislike", 1.0),
]
KINDS = {"view": 1, "purchase": 10, "impression": 0, "dislike": 0}
EVENTS = ",".join(f"{name}={weight}" for name, weight in KINDS.items())
COLUMNS = {"kind": "action", "weight": "dwell"}
STATED = ("--columns", "kind=action,weight=dwell", "--events", EVENTS)


def frame() -> pl.DataFrame:
    return pl.DataFrame(ROWS, schema=["session", "item", "action", "dwell"], orient="row").with_columns(
        time=pl.int_range(len(ROWS)) * 60.0
    )


def write(path: Path, log: pl.DataFrame) -> Path:
    if path.suffix == ".csv":
        log.write_csv(path)
    elif path.suffix == ".jsonl":
        log.write_ndjson(path)
    elif path.suffix == ".parquet":
        log.write_parquet(path)
    else:
        path.mkdir()
        log[:4].write_csv(path / "1.csv")
        log[4:].write_csv(path / "2.csv")
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet", "folder"])
def test_every_format_is_read_alike(tmp_path: Path, name: str) -> None:
    log, report = read(write(tmp_path / name, frame()), columns=COLUMNS, events=KINDS)
    assert [record.values for record in log.records()] == [("a", "c", "d"), ("a", "d")]
    assert log.weights.tolist() == [1, 0.5, 10, 1, 2]
    assert [log.kind_names[kind] for kind in log.kinds] == ["view", "view", "purchase", "view", "view"]
    assert log.negatives is not None
    # The impression of c was clicked, nothing follows that of e, and a dislike is a negative too.
    assert log.negatives.offsets.tolist() == [0, 0, 1, 1, 1, 2]
    assert [log.vocabulary.value(int(id)) for id in log.negatives.ids] == ["b", "b"]
    assert (
        "5 events of weight 0 are in no session; 2 of them are negatives of the next event in training" in report.notes
    )


def test_columns_follow_their_events(tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.csv", frame().reverse()), columns=COLUMNS, events=KINDS)[0]
    assert sorted(log.weights.tolist()) == [0.5, 1, 1, 2, 10]
    later = log.select(np.array([1, 0])).keep(np.array([False, True, True, True, True]))
    pairs = [(later.vocabulary.value(int(id)), weight) for id, weight in zip(later.ids, later.weights, strict=True)]
    assert pairs == [("c", 0.5), ("d", 10), ("a", 1), ("d", 2)] or pairs == [("d", 2), ("a", 1), ("c", 0.5), ("d", 10)]
    assert later.negatives is not None and len(later.negatives.offsets) == len(later.ids) + 1


def test_appended_logs_keep_weights_and_negatives(tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.csv", frame()), columns=COLUMNS, events=KINDS)[0]
    plain = Histories.of([ensue.History(("z", "b", "a"))])
    for first, second in ((log, plain), (plain, log)):
        both = append_histories(first, second)
        weights = [one.weights.tolist() or [1, 1, 1] for one in (first, second)]
        assert both.weights.tolist() == [*weights[0], *weights[1]]
        assert both.negatives is not None and len(both.negatives.offsets) == 9
        events = np.flatnonzero(np.diff(both.negatives.offsets))
        assert [both.vocabulary.value(int(both.ids[event])) for event in events] == ["c", "d"]
        assert [both.vocabulary.value(int(id)) for id in both.negatives.ids] == ["b", "b"]


@pytest.mark.parametrize(
    ("events", "columns", "message"),
    [
        ("view=x", {}, "--events view=x: the weight is not a number from 0 to 1,000,000,000; write it as in cart=3"),
        ("view=-1", {}, "--events view=-1: the weight is not a number from 0 to 1,000,000,000; write it as in cart=3"),
        (
            "view=1e10",
            {},
            "--events view=1e10: the weight is not a number from 0 to 1,000,000,000; write it as in cart=3",
        ),
        ("view=1,view=2", {}, "--events view=1,view=2: view appears twice; give each kind one weight"),
        (" , ", {}, "--events  , : names no kind; write it as in view=1,cart=3"),
        ("view=0", {}, "--events view=0: every weight is 0, so no event is left; give one a positive weight"),
        (
            "view=1",
            {"weight": "item"},
            "log.csv, line 2: column 'item' (weight) holds 'a'; give a number from 0 to 1,000,000,000",
        ),
    ],
)
def test_bad_weights_are_refused(tmp_path: Path, events: str, columns: dict[str, str], message: str) -> None:
    path = write(tmp_path / "log.csv", frame().rename({"item": "thing"}).with_columns(item=pl.col("thing")))
    with pytest.raises((SettingError, DataError)) as error:
        read(path, events=events.split(","), columns={"item": "thing", **columns})
    assert str(error.value).endswith(message)


@pytest.mark.parametrize("cell", ["", "-1", "inf", "much"])
def test_a_bad_cell_is_named(tmp_path: Path, cell: str) -> None:
    log = frame().with_columns(pl.col("dwell").cast(pl.String))
    log[4, "dwell"] = cell or None
    with pytest.raises(DataError, match=r"line 6: column 'dwell' \(weight\) (is empty|holds '.*'); give a number from"):
        read(write(tmp_path / "log.csv", log), columns=COLUMNS, events=KINDS)


def weighted(weights: list[float]) -> Histories:
    log = Histories.of([ensue.History(("a", "b", "c")), ensue.History(("b", "a"))])
    return Histories(log.ids, log.offsets, log.vocabulary, weights=np.array(weights))


@pytest.mark.parametrize("baseline", [Popularity, Markov])
def test_a_weight_counts_like_copies(baseline: type[Popularity]) -> None:
    log = weighted([1, 3, 2, 1, 2])
    counted = baseline(CountingSettings(), len(log.vocabulary))
    counted.count(log)
    totals = np.zeros(len(log.vocabulary))
    pairs = dict[tuple[int, int], int]()
    for record, weights in (("abc", (1, 3, 2)), ("ba", (1, 2))):
        ids = log.vocabulary.ids(list(record)).tolist()
        for number, (id, weight) in enumerate(zip(ids, weights, strict=True)):
            for _ in range(weight):  # one copy of the event, and of the step that leads to it
                totals[id] += 1
                if number:
                    pairs[ids[number - 1], id] = pairs.get((ids[number - 1], id), 0) + 1
    assert counted.totals.tolist() == totals.tolist()
    if isinstance(counted, Markov):
        rows = np.repeat(np.arange(len(totals)), np.diff(counted.rows)).tolist()
        assert (
            dict(zip(zip(rows, counted.columns.tolist(), strict=True), counted.counts.tolist(), strict=True)) == pairs
        )
    counted.forget(log)
    assert not counted.totals.any()


@pytest.mark.parametrize("model", ["core", "sasrec", "sansr", "hidan", "narm"])
def test_a_weight_has_the_gradient_of_copies(model: str) -> None:
    log = weighted([1, 3, 2, 1, 2])
    network = make(
        "next", model, settings={"dim": "8"} | ({"loss": "ce"} if model in ("sansr", "hidan", "sasrec") else {})
    )
    network.vocabulary = log.vocabulary
    module = cast(ItemNetwork[object], network.new_network())
    module.eval()  # no dropout, so that both see the same states
    batch = Windows(log, None).batch(np.arange(2)).to("cpu")
    copies = Windows(Histories(log.ids, log.offsets, log.vocabulary), None).batch(np.arange(2)).to("cpu")
    gradients = []
    torch.autograd.backward(module.loss(batch))
    gradients.append(torch.cat([p.grad.to_dense().flatten() for p in module.parameters() if p.grad is not None]))
    module.zero_grad()
    # Targets b c a have 3, 2 and 2 copies: their mean loss is the sum over single targets, by the number of copies.
    total = torch.zeros(())
    for number, count in enumerate((3, 2, 2)):
        mask = torch.zeros_like(copies.target_mask)
        row, step = copies.target_mask.nonzero()[number].tolist()
        mask[row, step] = True
        single = copies._replace(target_mask=mask, targets=copies.targets[number : number + 1])
        total = total + count * module.loss(single) / 7
    torch.autograd.backward(total)
    gradients.append(torch.cat([p.grad.to_dense().flatten() for p in module.parameters() if p.grad is not None]))
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("drawn", [64, 400])
def test_sampled_loss_with_weights_and_negatives(drawn: int) -> None:
    """Against a literal loop over targets: more items than are drawn, fewer, and enough for blocks."""
    torch.manual_seed(0)
    num_ids = 300 + FIRST
    for num_targets in (5, 1100):
        head = ItemHead(num_ids, 6, negatives=drawn, sparse=False)
        torch.nn.init.normal_(head.weight, std=0.5)
        queries = torch.randn(num_targets, 6)
        targets = torch.randint(FIRST, num_ids, (num_targets,))
        weights = torch.rand(num_targets)
        shown = torch.randint(FIRST, num_ids, (num_targets, 3))
        shown[0] = 0
        shown[1, 1:] = 0
        for extra in (None, shown):
            torch.manual_seed(1)
            loss = head.loss(queries, targets, weights=weights, shown=extra)
            torch.manual_seed(1)
            negatives = torch.arange(FIRST, num_ids) if drawn >= num_ids - FIRST else head.sampler.draw(drawn)
            corrections = torch.zeros(len(negatives))
            if drawn < num_ids - FIRST:
                corrections = (head.sampler.shares()[negatives] * drawn).log()
            losses = []
            for row in range(num_targets):
                sums = [queries[row] @ head.weight[targets[row]]]
                others = negatives != targets[row]
                sums += [*((head.weight[negatives] @ queries[row]) - corrections)[others]]
                loss_of_row = torch.stack(sums).logsumexp(0) - sums[0]
                if extra is not None:
                    choice = [sums[0], *(queries[row] @ head.weight[id] for id in extra[row].tolist() if id)]
                    loss_of_row = loss_of_row + torch.stack(choice).logsumexp(0) - sums[0]
                losses.append(loss_of_row)
            expected = (torch.stack(losses) * weights).mean()
            torch.testing.assert_close(loss, expected)
            gradient = torch.autograd.grad(loss, head.weight, retain_graph=True)[0]
            torch.testing.assert_close(gradient, torch.autograd.grad(expected, head.weight)[0], atol=1e-6, rtol=1e-3)


def test_full_softmax_with_weights() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(7, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True)
    targets, weights = torch.randint(2, 9, (7,)), torch.rand(7)
    loss = linear_cross_entropy(hidden, weight, None, targets, first=2, weights=weights)
    scores = hidden @ weight[2:].T
    expected = (torch.nn.functional.cross_entropy(scores, targets - 2, reduction="none") * weights).mean()
    torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(
        torch.autograd.grad(loss, (hidden, weight)), torch.autograd.grad(expected, (hidden, weight)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.fixture(name="command")
def command_of(monkeypatch: pytest.MonkeyPatch) -> Ensue:
    return partial(run, monkeypatch)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Sessions in which the next item is viewed, or bought at the end, next to an item that is shown in vain."""
    rng = np.random.default_rng(0)
    rows = []
    for session in range(80):
        start = int(rng.integers(8))
        for step in range(4):
            time = 1_700_000_000 + 3600 * session + 60 * step
            item = (start + step) % 8
            rows.append(f"s{session},i{(item + 3) % 8},{time - 1},impression")
            rows.append(f"s{session},i{item},{time},{'purchase' if step == 3 else 'view'}")
    path = tmp_path / "shop.csv"
    path.write_text("session,item,time,action\n" + "\n".join(rows) + "\n")
    return path


def test_a_model_folder_remembers_weights(command: Ensue, shop: Path, tmp_path: Path) -> None:
    events = "view=1,purchase=10,impression=0"
    fitted = command("fit", "next", shop, "-o", tmp_path / "m", "--model", "markov", "--events", events)
    assert fitted.code == 0, fitted.err
    facts = json.loads((tmp_path / "m" / "settings.json").read_text())["facts"]
    assert facts["reading"]["events"] == events and facts["events"] == 320
    # A later file needs no option: impressions are no events of its sessions.
    predicted = command("predict", tmp_path / "m", shop, "--json")
    assert {json.loads(line)["events"] for line in predicted.out.splitlines()} == {4}
    result = json.loads(command("evaluate", tmp_path / "m", shop, "--json").out)
    notes = result["rows"][0]
    by_kind = notes["by_kind"]
    assert {name: subset["targets"] for name, subset in by_kind.items()} == {"view": 160, "purchase": 80}
    mean = (160 * by_kind["view"]["mrr"] + 800 * by_kind["purchase"]["mrr"]) / 960
    assert notes["by_weight"]["all"]["mrr"] == pytest.approx(mean, rel=1e-3)
    shown = command("evaluate", tmp_path / "m", shop).out
    assert "purchase events" in shown and "all events, weighted" in shown


def test_equal_weights_change_no_byte(shop: Path, tmp_path: Path) -> None:
    data: list[tuple[Path, dict[str, float] | list[str]]] = [
        (shop, {"view": 1, "purchase": 1}),
        (shop, ["view", "purchase"]),
        (shop, {"view": 1, "purchase": 4}),
    ]
    weights = []
    for path, events in data:
        model = ensue.NextEvent("core", dim=8, epochs=1, heads=2).fit(path, events=events)
        model.save(tmp_path / "m")
        weights.append((tmp_path / "m" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_impressions_in_vain_lower_the_score_of_their_item() -> None:
    """After a, b and c are chosen equally often, but c is shown in vain wherever b is chosen."""
    rows = [(f"s{n}", item, kind, 10 * n + step) for n in range(200) for step, (item, kind) in enumerate(
        [("a", "view"), ("c", "impression"), ("b", "view")] if n % 2 else [("a", "view"), ("c", "view")]
    )]  # fmt: skip
    log = pl.DataFrame(rows, schema=["session", "item", "action", "time"], orient="row")
    leads = []
    for events in ({"view": 1}, {"view": 1, "impression": 0}):
        model = ensue.NextEvent(
            "sasrec", dim=16, epochs=5, batch_size=8, learning_rate=0.003, loss="sampled", dropout=0.0
        )
        answer = model.fit(log, events=events).predict([["a"]], k=2)[0]
        scores = {choice.value: choice.score for choice in answer.choices}
        leads.append(np.log(scores["b"] / scores["c"]))
    assert leads[1] > leads[0] + 0.3


def test_models_without_weights_refuse_them(command: Ensue, shop: Path, tmp_path: Path) -> None:
    ran = command("fit", "next", shop, "-o", tmp_path / "m", "--model", "gru4rec", "--events", "view=1,purchase=10")
    assert ran.code == 2 and "gru4rec does not train with weights of events; fit another model" in ran.err
    pytest.importorskip("duckdb", reason="the extra large is not there")
    ran = command("prepare", shop, "-o", tmp_path / "p", "--events", "view=1,purchase=10")
    assert ran.code == 2 and "stores no weights of events" in ran.err


def test_split_keeps_kinds_and_weights(command: Ensue, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", frame())
    ran = command("split", path, "-o", tmp_path / "halves", "--by", "random", "--test", "0.4", *STATED)
    assert ran.code == 0, ran.err
    halves = pl.concat([pl.read_csv(tmp_path / "halves" / name) for name in ("train.csv", "test.csv")])
    rows = halves.sort("time").select("session", "item", "kind", "weight").rows()
    assert rows == ROWS
