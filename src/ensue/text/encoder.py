"""A frozen sentence encoder: an installed ``sentence-transformers`` model that turns texts into vectors.

No code that comes with a model is run, and its weights must be safetensors. A model folder stores the name of its
encoder and a probe of it, not its weights. An encoder ignores everything beyond the first 128 to 512 word pieces of a
text.

The vector of a text depends on the other texts of its batch only through rounding (1e-7 is usual).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors import SafetensorError

from ensue.errors import SettingError
from ensue.settings import require_encoder
from ensue.text.tokens import split_words

if TYPE_CHECKING:  # an encoder needs torch, but a model without one does not
    import torch

Vectors = npt.NDArray[np.float32]
BATCH_SIZE = 2**10
"""Number of texts that are encoded at once."""
MAX_CACHED_BYTES = 2**28
"""Bytes of vectors that are cached, so that a text is encoded once; the oldest go first."""
MIN_VERSION = 6
"""Version of sentence-transformers from which ``trust_remote_code=False`` holds for local folders too."""
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
PROBE = "the encoder must be the one that the model was trained with ."
"""Text whose vector is stored in a folder to recognise the encoder."""
_MIN_LENGTH = 1e-12


class Encoder:
    """A frozen sentence encoder, which is read when the first text is encoded.

    Args:
        name: a folder, or the name of a model in the cache of ``sentence-transformers``; nothing is downloaded.
        device: where it runs.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.follow: Callable[[int, int], None] | None = None
        """Called with the number of encoded texts, and of texts to encode."""
        self._model: Callable[..., Vectors] | None = None
        self._encoded: dict[str, Vectors] = {}
        self._lock = Lock()

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, (texts, dim).

        Raises:
            SettingError: the package is missing, or the model cannot be read.
        """
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._encoded]
            for low in range(0, len(new), BATCH_SIZE):
                batch = new[low : low + BATCH_SIZE]
                self._encoded.update(zip(batch, self._encode(batch), strict=True))
                if self.follow is not None:
                    self.follow(low + len(batch), len(new))
            vectors = np.stack([self._encoded[text] for text in texts])
            max_cached = MAX_CACHED_BYTES // (4 * vectors.shape[1])
            for text in list(islice(self._encoded, max(0, len(self._encoded) - max_cached))):
                del self._encoded[text]
        return vectors

    def unit_vectors(self, texts: pl.Series) -> Vectors:
        """Return vectors of length 1, (texts, dim); 0 for texts without a word.

        Raises:
            SettingError: the package is missing, or the model cannot be read.
        """
        split = split_words(texts)
        has_words = np.diff(split.sentences[split.texts]) > 0
        units = np.zeros((len(texts), self.dim), np.float32)
        if has_words.any():
            vectors = self.vectors(texts.filter(pl.Series(has_words)).to_list())
            units[has_words] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=_MIN_LENGTH)
        return units

    @property
    def dim(self) -> int:
        """Width of its vectors."""
        return int(self.vectors([PROBE]).shape[1])

    def probe(self) -> list[float]:
        """Return the first numbers of one vector, by which the encoder is recognised."""
        return [float(number) for number in self.vectors([PROBE])[0, :8]]

    def require(self, probe: Sequence[float]) -> None:
        """Refuse an encoder that is not the one that gave ``probe``.

        Raises:
            SettingError: it is another one, it is missing, or it cannot be read.
        """
        numbers = self.probe()
        # Another machine or version of torch rounds differently; another model differs everywhere.
        if len(numbers) != len(probe) or not np.allclose(numbers, probe, rtol=0, atol=0.02 * np.abs(probe).max()):
            raise SettingError(f"encoder {self.name!r} is not the one this model was trained with; restore it")

    def _encode(self, texts: list[str]) -> Vectors:
        if self._model is None:
            require_encoder(self.name)
            with _offline():
                self._model = _read_offline(self.name, self.device)
        return np.asarray(self._model(texts, show_progress_bar=False, convert_to_numpy=True), np.float32)


@contextmanager
def _offline() -> Iterator[None]:
    """Keep the libraries below off the network, also where they ignore ``local_files_only``."""
    former = {variable: os.environ.get(variable) for variable in _OFFLINE}
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    try:
        yield
    finally:
        for variable, value in former.items():
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = value


def _read_offline(name: str, device: torch.device) -> Callable[..., Vectors]:
    """Return the ``encode`` method of a model in evaluation mode."""
    import sentence_transformers

    if int(sentence_transformers.__version__.partition(".")[0]) < MIN_VERSION:
        raise SettingError(
            f"encoder {name!r} needs sentence-transformers {MIN_VERSION} or newer, for older ones run code that lies "
            "in a model's folder: pip install --upgrade 'ensue[encoder]'"
        )
    try:
        with redirect_stderr(StringIO()):  # a progress bar
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
    return model.eval().encode
