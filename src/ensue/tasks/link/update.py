"""Updates of a trained linker: new articles join the index, new links are trained on in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ensue.data.posts.corpus import Corpus
from ensue.errors import DataError
from ensue.tasks.link.encode import vectors_of
from ensue.tasks.link.optimizer import link_optimizer
from ensue.tasks.link.state import LinkState
from ensue.tasks.link.train import links, training_hashes
from ensue.tasks.state import module_of
from ensue.training.loop import train
from ensue.training.optimizer import optimizer_tensors, restore_optimizer
from ensue.training.report import Report


def update(state: LinkState, data: Corpus) -> Report:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.update`."""
    index, _, new = state.article_index.joined(data.articles)
    learned = replace(data, articles=index.articles).linked()
    if not new and not len(learned):
        raise DataError("new data: no article is new, and no post is about a known one; there is nothing to train on")
    state.article_index, state.post_index = index, None
    metadata = state.metadata
    metadata.updates = updates = metadata.updates + 1
    state.linked = tuple(sorted({*state.linked, *learned.posts.about}))
    if len(learned):
        state.train_prints = torch.from_numpy(np.union1d(state.train_prints.numpy(), training_hashes(learned.posts)))
        state.post_terms = np.union1d(state.post_terms, index.word_terms(learned.posts.texts))
    metadata.articles = len(index)
    metadata.posts += len(learned)
    metadata.links += len(learned.pairs)
    last = Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
    if state.model is not None:
        if len(learned) and state.schedule is not None:
            last = _learn(state, learned, updates)
            state.network.eval()
        index.vectors = vectors_of(state, index.articles.texts)
    return last


def _learn(state: LinkState, data: Corpus, updates: int) -> Report:
    """One pass; rows for new words, while the optimiser's moments of the others stay."""
    schedule, network, old = state.schedule, module_of(state.network), state.optimizer
    assert schedule is not None and old is not None
    about = data.articles.select(np.unique(data.pairs[:, 0]))
    state.tokenizer.add([about.texts, data.posts.texts], min_count=state.network_settings.least_count)
    torch.manual_seed(state.seed + updates)
    moments = optimizer_tensors(network, old)
    state.network.grow(len(state.tokenizer.vocabulary))
    state.optimizer = link_optimizer(state, schedule)
    restore_optimizer(network, state.optimizer, moments)
    *_, last = train(
        network,
        links(state, data),
        None,
        replace(schedule, epochs=1),
        optimizer=state.optimizer,
        seed=state.seed + updates,
        stage="update",
    )
    return last
