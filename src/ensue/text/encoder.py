"""A frozen sentence encoder: an installed ``sentence-transformers`` model that turns texts into vectors.

No code that comes with a model is run, and its weights must be safetensors. A model folder keeps the name of its
encoder and a probe of it, not its weights. Of a text, an encoder leaves out what is beyond some 128 to 512 pieces of
words.

A vector depends on the texts that are encoded beside it as far as the encoder rounds (1e-7 is usual).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from itertools import islice
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from torch import Tensor

from ensue.errors import SettingError
from ensue.settings import require_encoder

Vectors = npt.NDArray[np.float32]
AT_ONCE = 2**10
"""Texts that are handed over at once."""
KEPT = 2**28
"""Bytes of vectors that are kept, so that a text is encoded once; the oldest go first."""
OLDEST = 6
"""The version from which ``trust_remote_code=False`` holds for local folders too."""
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
PROBE = "the encoder must be the one that the model was trained with ."
"""Text whose vector is stored in a folder to recognise the encoder."""


class SentenceModel(Protocol):
    """The part of ``SentenceTransformer`` that is used."""

    def encode(self, texts: list[str], *, show_progress_bar: bool, convert_to_numpy: bool) -> Vectors:
        """(texts, dim) their vectors."""


class Encoder:
    """A frozen sentence encoder, read when it is first asked.

    Args:
        name: a folder, or the name of a model in the cache of ``sentence-transformers``; nothing is downloaded.
        device: where it runs.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.follow: Callable[[int, int], None] | None = None
        """Called with how many texts are encoded, and how many have to be."""
        self._model: SentenceModel | None = None
        self._encoded: dict[str, Vectors] = {}
        self._lock = Lock()

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """(texts, dim) their vectors.

        Raises:
            SettingError: the package is missing, or the model cannot be read.
        """
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._encoded]
            for low in range(0, len(new), AT_ONCE):
                part = new[low : low + AT_ONCE]
                self._encoded.update(zip(part, self._encode(part), strict=True))
                if self.follow is not None:
                    self.follow(low + len(part), len(new))
            vectors = torch.from_numpy(np.stack([self._encoded[text] for text in texts]))
            most = KEPT // (4 * vectors.shape[1])
            for text in list(islice(self._encoded, max(0, len(self._encoded) - most))):
                del self._encoded[text]
        return vectors

    @property
    def dim(self) -> int:
        """Width of its vectors."""
        return self.vectors([PROBE]).shape[1]

    def probe(self) -> list[float]:
        """The first numbers of one vector, by which an encoder is known again."""
        return [float(number) for number in self.vectors([PROBE])[0, :8]]

    def require(self, probe: Sequence[float]) -> None:
        """Refuse an encoder that is not the one that gave ``probe``.

        Raises:
            SettingError: it is another one, it is missing, or it cannot be read.
        """
        numbers = self.probe()
        if len(numbers) != len(probe) or not np.allclose(numbers, probe, rtol=0, atol=0.02 * np.abs(probe).max()):
            raise SettingError(f"encoder {self.name!r} is not the one this model was trained with; restore it")

    def _encode(self, texts: list[str]) -> Vectors:
        if self._model is None:
            self._model = _read(self.name, self.device)
        return np.asarray(self._model.encode(texts, show_progress_bar=False, convert_to_numpy=True), np.float32)


def _read(name: str, device: torch.device) -> SentenceModel:
    """The model, in evaluation mode."""
    require_encoder(name)
    with _offline():
        return _read_offline(name, device)


@contextmanager
def _offline() -> Iterator[None]:
    """Keep the libraries below off the network, whatever they make of ``local_files_only``."""
    before = {variable: os.environ.get(variable) for variable in _OFFLINE}
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    try:
        yield
    finally:
        for variable, value in before.items():
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = value


def _read_offline(name: str, device: torch.device) -> SentenceModel:
    import sentence_transformers

    if int(sentence_transformers.__version__.partition(".")[0]) < OLDEST:
        raise SettingError(
            f"encoder {name!r} needs sentence-transformers {OLDEST} or newer, for older ones run code that lies in a "
            "model's folder: pip install --upgrade 'ensue[encoder]'"
        )
    try:
        with redirect_stderr(StringIO()):  # a bar of progress
            model = sentence_transformers.SentenceTransformer(
                name,
                device=str(device),
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except (OSError, ValueError, RuntimeError, ImportError, LookupError, TypeError, SafetensorError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise SettingError(
            f"encoder {name!r} cannot be read ({reason}); nothing is downloaded; give the folder or the name of an "
            "installed sentence-transformers model with safetensors weights"
        ) from error
    encoder: SentenceModel = model.eval()
    return encoder
