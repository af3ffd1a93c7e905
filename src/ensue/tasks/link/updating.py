"""How a trained linker goes on: new articles join the shelf, new links are learned in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ensue.data.corpus import Corpus
from ensue.errors import DataError
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.link.fitting import links, prints
from ensue.training.loop import Report, train
from ensue.training.optimizer import optimizer_tensors, restore_optimizer

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor


def update(predictor: LinkPredictor, data: Corpus) -> Report:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.update`."""
    shelf, _, new = predictor.known.joined(data.articles)
    learned = replace(data, articles=shelf.articles).linked()
    if not new and not len(learned):
        raise DataError("new data: no article is new, and no post is about a known one; there is nothing to learn")
    predictor.shelf, predictor.index = shelf, None
    updates, facts = predictor.facts.get("updates", 0) + 1, predictor.facts
    predictor.linked = tuple(sorted({*predictor.linked, *learned.posts.about}))
    if len(learned):
        predictor.train_prints = torch.from_numpy(np.union1d(predictor.train_prints.numpy(), prints(learned.posts)))
    predictor.facts |= {
        "updates": updates,
        "articles": len(shelf),
        "posts": facts["posts"] + len(learned),
        "links": facts["links"] + len(learned.pairs),
    }
    last = Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
    if predictor.model is not None:
        if len(learned) and predictor.schedule is not None:
            last = _learn(predictor, learned, updates)
            predictor.model.eval()
        shelf.vectors = predictor.vectors(shelf.articles.texts)
    return last


def _learn(predictor: LinkPredictor, data: Corpus, updates: int) -> Report:
    """One pass; rows for new words, while the optimiser's moments of the others stay."""
    schedule, old = predictor.schedule, predictor.optimizer
    assert schedule is not None and old is not None
    about = data.articles.select(np.unique(data.pairs[:, 0]))
    predictor.tokenizer.add([about.texts, data.posts.texts], min_count=predictor.settings.min_count)
    torch.manual_seed(predictor.seed + updates)
    moments = optimizer_tensors(predictor.model, old)
    predictor.model.grow(len(predictor.tokenizer.vocabulary))
    predictor.optimizer = new_optimizer(predictor.model, schedule)
    restore_optimizer(predictor.model, predictor.optimizer, moments)
    *_, last = train(
        predictor.model,
        links(predictor, data),
        None,
        replace(schedule, epochs=1),
        optimizer=predictor.optimizer,
        seed=predictor.seed + updates,
        stage="update",
    )
    return last
