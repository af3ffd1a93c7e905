"""Beam search and scores of candidates in one call each: a step of few rows is mostly overhead.

The search is :func:`ensue.tasks.suggest.decoding.beam_search`, the scores are those of
:func:`ensue.tasks.suggest.model.score`; both of a :class:`QueryWriter` on the CPU.
"""

from __future__ import annotations

import numpy as np

from ensue import kernels
from ensue.metrics import Floats
from ensue.nn.autograd import parameters_of
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.transformer import sinusoids
from ensue.tasks.suggest.batch import PADDING, PaddedQueries
from ensue.tasks.suggest.decoding import Found, Ints, Mask, barriers
from ensue.tasks.suggest.model import Decoder
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search

MAX_TOKENS = 4096
"""Tokens of the candidates of a session: those of more are scored in torch."""


def _prepared(writer: Decoder, memory: object, longest: int) -> kernels.Structure | None:
    """Return the decoder and the memory of some sessions for kernels; ``None`` where these do not take them.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        longest: number of tokens that are read.
    """
    if not (kernels.is_loaded() and isinstance(writer, QueryWriter) and isinstance(memory, WriterMemory)):
        return None
    table = writer.inputs()
    if not len(memory.words) or not is_float32_on_cpu(table, memory.keys):
        return None
    decoder = writer.kept.get(parameters_of(writer.layers))
    layers = decoder.packed.with_memory(decoder.fold(memory.keys, memory.mask), decoder.heads)
    if layers is None:
        return None
    output = writer.words.output()
    return kernels.prepare(
        "search", layer=layers, heads=decoder.heads, layers=len(layers), wide=decoder.packed.hidden, longest=longest,
        scale=writer.dim**0.5, table=table, codes=sinusoids(longest + 1, writer.dim, table.dtype, table.device),
        weight=output[:-1], bias=output[-1], gate=writer.gate_vector(),
        memory=(memory.words * memory.mask).contiguous(), threads=kernels.num_threads(),
    )  # fmt: skip


def compiled_search(
    writer: Decoder, memory: object, queries: PaddedQueries, search: Search, banned: Mask | None, typed: Typed | None
) -> Found | None:
    """Return the likeliest next queries, or ``None`` where the kernel does not take such a decoder.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        queries: the sessions.
        search: widths and lengths.
        banned: (ids,) True for tokens that must not be written.
        typed: what each suggestion must begin with.
    """
    prepared = _prepared(writer, memory, search.longest)
    if prepared is None:
        return None
    shape = len(queries.words), search.keep
    found = Found(np.empty((*shape, search.longest), np.int64), np.empty(shape), np.empty(shape))
    prefixes = {} if typed is None else {"allowed": typed.allowed, "sizes": typed.sizes, "ends": typed.ends}
    divisors = np.arange(search.longest + 2, dtype=np.float64) ** search.exponent
    kernels.call(
        "search", prepared, beam=search.beam, wall=barriers(prepared.dimensions["ids"], banned), typed=queries.words,
        lengths=queries.lengths, divisors=divisors.astype(np.float32), repeats=int(search.repeats),
        exhaustive=int(search.exhaustive), tokens=found.tokens, scores=found.scores, sums=found.sums, **prefixes,
    )  # fmt: skip
    return found


def compiled_scores(writer: Decoder, memory: object, candidates: Ints) -> Floats | None:
    """Return (sessions, choices) log-probabilities, or ``None`` where the kernel does not take such a decoder.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        candidates: (sessions, choices, width) tokens, 0 at padding.
    """
    sessions, choices, width = candidates.shape
    prepared = _prepared(writer, memory, width) if 0 < choices * width <= MAX_TOKENS else None
    if prepared is None:
        return None
    scores = np.empty((sessions, choices))
    lengths = (candidates != PADDING).sum(2)
    kernels.call("likelihoods", prepared, typed=candidates, lengths=lengths, scores=scores)
    return scores
