"""The beam search of :mod:`ensue.tasks.suggest.decoding` in one call: a step of few beams is mostly overhead."""

from __future__ import annotations

import numpy as np
from torch import nn

from ensue import kernels
from ensue.nn.autograd import parameters_of
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.transformer import sinusoids
from ensue.tasks.suggest.batch import PaddedQueries
from ensue.tasks.suggest.decoding import Found, Mask, barriers
from ensue.tasks.suggest.model import Decoder
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search


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
    if not (kernels.is_loaded() and isinstance(writer, QueryWriter) and isinstance(memory, WriterMemory)):
        return None
    words = writer.words
    table = words.table.weight.detach()
    has_projection = not (isinstance(writer.widen, nn.Identity) and isinstance(words.narrow, nn.Identity))
    if has_projection or not len(memory.words) or not is_float32_on_cpu(table, memory.keys):
        return None
    decoder = writer.kept.get(parameters_of(writer.layers))
    layers = decoder.packed.with_memory(decoder.fold(memory.keys, memory.mask), decoder.heads)
    if layers is None:
        return None
    sources = len(memory.words)
    output = words.output()
    found = Found(
        np.empty((sources, search.keep, search.longest), np.int64),
        np.empty((sources, search.keep)),
        np.empty((sources, search.keep)),
    )
    lengths = np.arange(search.longest + 2, dtype=np.float64)
    prefixes = {} if typed is None else {"allowed": typed.allowed, "sizes": typed.sizes, "ends": typed.ends}
    kernels.call(
        "search", layer=layers, heads=decoder.heads, layers=len(layers), wide=decoder.packed.hidden, beam=search.beam,
        scale=writer.dim**0.5, table=table, codes=sinusoids(search.longest + 1, writer.dim, table.dtype, table.device),
        weight=output[:-1], bias=output[-1], wall=barriers(len(table), banned), gate=writer.gate_vector(),
        memory=(memory.words * memory.mask).contiguous(), typed=queries.words, lengths=queries.lengths,
        divisors=(lengths**search.exponent).astype(np.float32), repeats=int(search.repeats),
        exhaustive=int(search.exhaustive), tokens=found.tokens, scores=found.scores, sums=found.sums,
        threads=kernels.num_threads(), **prefixes,
    )  # fmt: skip
    return found
