"""The contract suite over every model of task ``next``: three lines a model."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor
from tests.tasks.contract import close
from tests.tasks.next.contract import TRAINED, NextContract, VariantContract, shares

SESSIONS = {
    "dim": 16,
    "dropout": 0.0,
    "loss": "ce",
    "epochs": 20,
    "learning_rate": 0.02,
    "decay": False,
    "batch_size": 8,
    "patience": 3,
}


class TestHiDAN(NextContract):
    model = "hidan"
    options = TRAINED


class TestHiDANWithoutUserAttention(VariantContract):
    model = "hidan-nua"
    options = TRAINED


class TestHiDANWithoutCascadeAttention(VariantContract):
    model = "hidan-nca"
    options = TRAINED


class TestHiDANWithoutTime(VariantContract):
    model = "hidan-nt"
    options = TRAINED


class TestCascadeBlend(NextContract):
    model = "cascade-blend"
    options = TRAINED

    def test_update_learns(self, own: NextPredictor) -> None:
        question = [History(("a1",))]
        before = own.predict(question, 1)[0].choices[0].value
        own.update(Histories.of([History(("a1", "new"), (0.0, 3600.0))] * 16))
        assert (
            before == "a2" and own.predict(question, 1)[0].choices[0].value == "new"
        )  # what is remembered counts at once

    def test_only_time_apart_counts(self, predictor: NextPredictor) -> None:
        """Here hours and days count too: past and question together are moved by whole fortnights."""
        later = 20 * 14 * 86_400.0

        def moved(records: list[History]) -> list[History]:
            return [History(record.values, tuple(time + later for time in record.times)) for record in records]

        asked = self.data(20, 2)
        close(predictor.predict(asked), self.fitted(moved(self.data(80, 0))).predict(moved(asked)), shares)


class ReadsWhole:
    """Of a model whose state remembers the whole history: none is longer than its reach."""

    model: ClassVar[str]

    def test_evidence_in_a_history_longer_than_the_reach_names_the_right_events(self) -> None:
        network, settings = MODELS[self.model].make, MODELS[self.model].settings
        assert network(settings, 5).reach is None


class TestRNN(ReadsWhole, NextContract):
    model = "rnn"
    options = TRAINED


class TestLSTM(VariantContract):
    model = "lstm"
    options = TRAINED


class TestRMTPP(ReadsWhole, NextContract):
    model = "rmtpp"
    options = TRAINED


class TestAttRNN(VariantContract):
    model = "att-rnn"
    options = TRAINED


class TestAttLSTM(ReadsWhole, NextContract):
    model = "att-lstm"
    options = TRAINED


class TestCYANRNN(ReadsWhole, NextContract):
    model = "cyan-rnn"
    options = TRAINED


class TestSANSR(NextContract):
    model = "sansr"
    options = SESSIONS
    short = {"max_length": 2}  # noqa: RUF012


class TestSANSRWithoutResiduals(VariantContract):
    model = "sansr-rc"
    options = SESSIONS


RIVALS = {"dim": 16, "epochs": 14, "learning_rate": 0.02, "batch_size": 8, "patience": 30, "refit": True}


class TestCORE(NextContract):
    model = "core"
    options = {**RIVALS, "epochs": 20, "negatives": 32}  # noqa: RUF012
    short = {"max_length": 2}  # noqa: RUF012


class TestBlend(NextContract):
    model = "blend"
    options = {**RIVALS, "negatives": 32}  # noqa: RUF012
    short = {"max_length": 2, "window": 2}  # noqa: RUF012


class TestBPRMF(NextContract):
    model = "bpr-mf"
    options = RIVALS
    short = {"max_length": 2}  # noqa: RUF012
    crowd = True


class TestFPMC(NextContract):
    model = "fpmc"
    options = RIVALS
    short = {"max_length": 2}  # noqa: RUF012


class TestGRU4Rec(ReadsWhole, NextContract):
    model = "gru4rec"
    options = RIVALS


class TestNARM(ReadsWhole, NextContract):
    model = "narm"
    options = RIVALS


class TestSTAMP(NextContract):
    model = "stamp"
    options = RIVALS
    short = {"max_length": 2}  # noqa: RUF012


class TestSRGNN(NextContract):
    model = "sr-gnn"
    options = RIVALS
    short = {"max_length": 2}  # noqa: RUF012


TRANSFORMERS = {"dim": 16, "epochs": 25, "learning_rate": 0.01, "batch_size": 8, "dropout": 0.0, "max_length": 50}


class TestSASRec(NextContract):
    model = "sasrec"
    options = TRANSFORMERS
    short = {"max_length": 2}  # noqa: RUF012


class TestESASRec(NextContract):
    model = "esasrec"
    options = TRANSFORMERS
    short = {"max_length": 2}  # noqa: RUF012


class TestBERT4Rec(NextContract):
    model = "bert4rec"
    options = {  # noqa: RUF012
        **TRANSFORMERS, "dim": 32, "num_layers": 1, "heads": 1, "epochs": 200, "learning_rate": 0.003, "patience": 60,
    }  # fmt: skip
    short = {"max_length": 3}  # noqa: RUF012


class TestHSTU(NextContract):
    model = "hstu"
    options = {**TRANSFORMERS, "learning_rate": 0.003}  # noqa: RUF012
    short = {"max_length": 2}  # noqa: RUF012


class TestPopularity(NextContract):
    model = "popularity"
    crowd = True


class TestRecent(NextContract):
    model = "recent"
    crowd = True


class TestMarkov(NextContract):
    model = "markov"


class TestSequentialRules(NextContract):
    model = "rules"


class TestCooccurrence(NextContract):
    model = "cooccurrence"


class TestOwnItems(NextContract):
    model = "own-items"


class TestInterpolated(NextContract):
    model = "interpolated"


class TestVSKNN(NextContract):
    model = "vsknn"
    crowd = True


def test_every_model_signs_the_contract() -> None:
    others = {"hidan-paper", "sansr-paper"}  # tests/tasks/test_papers.py
    contracts = {*VariantContract.__subclasses__(), *NextContract.__subclasses__()} - {NextContract}
    assert {contract.model for contract in contracts} == set(MODELS) - others


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        NextPredictor("hiden")
    assert str(error.value) == (
        f"model 'hiden' is not known for task next; did you mean 'hidan'? choose from best, {', '.join(MODELS)}"
    )


@pytest.mark.parametrize("model", ["hidan", "markov"])
def test_data_in_which_nothing_follows_is_refused(model: str) -> None:
    with pytest.raises(DataError) as error:
        list(NextPredictor(model).fit(Histories.of([History(("a",)), History(("b",))])))
    assert str(error.value) == ("training data: every session has one event, so there is nothing to predict")
