"""Updates of a trained linker: new articles join the index, new links are trained on in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ensue.data.posts.corpus import Corpus
from ensue.errors import DataError
from ensue.learning.life import NO_TRAINING, resize_embeddings, train_update
from ensue.tasks.link.encode import vectors_of
from ensue.tasks.link.state import LinkState
from ensue.tasks.link.train import links, training_hashes
from ensue.training.report import Report


def update(state: LinkState, data: Corpus) -> Report:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.update`."""
    index, _, new = state.article_index.joined(data.articles)
    learned = replace(data, articles=index.articles).linked()
    if not new and not len(learned):
        raise DataError("new data: no article is new, and no post is about a known one; there is nothing to train on")
    state.article_index, state.post_index = index, None
    metadata = state.metadata
    metadata.updates += 1
    state.linked = tuple(sorted({*state.linked, *learned.posts.about}))
    if len(learned):
        state.train_prints = torch.from_numpy(np.union1d(state.train_prints.numpy(), training_hashes(learned.posts)))
        state.post_terms = np.union1d(state.post_terms, index.word_terms(learned.posts.texts))
    metadata.articles = len(index)
    metadata.posts += len(learned)
    metadata.links += len(learned.pairs)
    report = NO_TRAINING
    if state.model is not None:
        if len(learned) and state.schedule is not None:
            linked_articles = learned.articles.select(np.unique(learned.pairs[:, 0]))
            texts = [linked_articles.texts, learned.posts.texts]
            state.tokenizer.add(texts, min_count=state.network_settings.least_count)
            resize_embeddings(state, len(state.tokenizer.vocabulary))
            *_, report = train_update(state, links(state, learned))
            state.network.eval()
        index.vectors = vectors_of(state, index.articles.texts)
    return report
