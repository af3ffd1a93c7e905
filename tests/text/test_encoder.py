"""What is asked of an installed encoder, what is kept, and what is said where none can be read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ensue import SettingError
from ensue.text import encoder as module
from ensue.text.encoder import Encoder
from tests.encoders import WIDTH, StandIn, hashed, install

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def test_it_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    encoder, told = Encoder("stand-in", CPU), list[tuple[int, int]]()
    encoder.follow = lambda done, total: told.append((done, total))
    found = encoder.vectors(["a", "b", "a", "c", "d", "e"])
    assert told == [(2, 5), (4, 5), (5, 5)] and StandIn.asked == [["a", "b"], ["c", "d"], ["e"]]
    assert found[2].tolist() == hashed("a").tolist() and found[5].tolist() == hashed("e").tolist()
    encoder.vectors(["e", "a"])
    assert len(told) == 3


def test_only_so_many_vectors_are_kept_and_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Encoder("stand-in", CPU).vectors(["a b", "c", "a b", "d"])
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 2 * 4 * WIDTH)
    encoder = Encoder("stand-in", CPU)
    StandIn.asked.clear()
    assert np.array_equal(encoder.vectors(["a b", "c", "a b", "d"]), whole)
    assert np.array_equal(encoder.vectors(["d", "c", "a b"]), whole[[3, 1, 0]])
    assert StandIn.asked == [["a b", "c", "d"], ["a b"]]
    assert whole[0].tolist() == hashed("a b").tolist() and encoder.dim == WIDTH


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nowhere", "nowhere is no model"), ("damaged", "header too large"), ("odd", "KeyError")],
)
def test_an_encoder_that_cannot_be_read_says_why(name: str, reason: str) -> None:
    with pytest.raises(SettingError) as error:
        Encoder(name, CPU).vectors(["a"])
    assert str(error.value) == (
        f"encoder {name!r} cannot be read ({reason}); nothing is downloaded; give the folder or the name of an "
        "installed sentence-transformers model with safetensors weights"
    )


def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    for name in (str(tmp_path), "stand-in", "owner/stand-in"):
        assert Encoder(name, CPU).dim == WIDTH
        made = StandIn.made[-1]
        assert made["name"] == name and made["local_files_only"] is True and made["trust_remote_code"] is False
        assert made["offline"] == "1" and os.environ["HF_HUB_OFFLINE"] == "0"


@pytest.mark.parametrize(
    "name",
    [
        "https://evil.example/model",
        "hf://evil/model",
        "file:///etc",
        "//evil.example/share",
        "\\\\evil\\share",
        "/net/evil.example/model",
        "../model",
        "/tmp/../etc",
        "owner/..",
        "~root/model",
        "a\nb",
        "/missing/model",
        "a/b/c",
        "",
    ],
)
def test_an_encoder_elsewhere_is_refused_before_the_library_is_asked(name: str) -> None:
    with pytest.raises(SettingError, match=r"^encoder is '") as error:
        Encoder(name, CPU).vectors(["a"])
    assert "\n" not in str(error.value) and StandIn.made == []


def test_a_version_that_runs_code_of_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sentence_transformers"], "__version__", "5.4.1")
    with pytest.raises(SettingError) as error:
        Encoder("stand-in", CPU).vectors(["a"])
    assert str(error.value) == (
        "encoder 'stand-in' needs sentence-transformers 6 or newer, for older ones run code that lies in a model's "
        "folder: pip install --upgrade 'ensue[encoder]'"
    )
    assert StandIn.made == []
