"""How networks that link posts learn, step for step of their start and epoch for epoch: what order adds to the bag.

For each network the MRR of held-out posts by all of its vector, by the bag's part and by the encoder's part alone; the
share of the encoder in the cosine; the loss; and the mean length of the gradient by part. The first row is the mean of
the vectors that the encoder reads, before anything is learned, which no network should end below. ``test`` in the last
row has MRR and pooled average precision of the test posts, where the file has a part of that name.

    python benchmarks/linking_curves.py politifact/ [--models ast,cnn,gru,bigru] [--vectors FILE] [--epochs 2]
        [--seed 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional

from ensue.data.histories import Mask
from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.tasks.link.link_metrics import Pool, by_row
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.predictor import LinkPredictor
from ensue_studies.results import provenance

SMALL = {"heads": 5, "hidden": 100, "filters": 100, "learning_rate": 1e-3}
"""As wide as the vectors at hand, as in the study of AST."""


def curve(predictor: LinkPredictor, data: Corpus) -> Iterator[dict[str, Any]]:
    """Train, and yield a row at the first step of each stage and after each epoch.

    Args:
        predictor: of a network, untrained.
        data: with parts ``train`` and ``valid``, or a tenth of it is held out.
    """
    _, held, _ = data.split(predictor.seed)
    start_time = time.process_time()
    lengths = list[dict[str, float]]()
    seen = set[tuple[str, int]]()
    for report in predictor.fit(data):
        network = predictor.network
        assert isinstance(network, Linker)
        if not seen:
            yield {"stage": "mean of vectors", "epoch": 0, "mrr": _mrr(*_means(predictor, network, held), held.related)}
        lengths.append(gradients(network))
        started = (report.stage, 0) not in seen
        ended = report.step == report.steps
        if report.stage == "pretrain":  # the bag alone learns: its end is enough
            ended &= report.epoch == report.epochs
        location = report.stage, 0 if started else report.epoch
        if (not started and not ended) or location in seen:
            continue
        seen.add(location)
        yield {
            "stage": location[0],
            "epoch": location[1],
            "loss": report.loss,
            **parts(predictor, network, held),
            "gradients": {name: float(np.mean([own[name] for own in lengths])) for name in lengths[0]},
            "cpu_s": round(time.process_time() - start_time, 1),
        }
        network.train()
        lengths = []
    assert isinstance(predictor.network, Linker)
    last: dict[str, Any] = {"stage": "kept", "epoch": predictor.metadata.epochs}
    if "test" in data.parts:
        test = data.part("test").linked()
        last["test"] = parts(predictor, predictor.network, test)
    yield last | parts(predictor, predictor.network, held)


def gradients(network: Linker) -> dict[str, float]:
    """The length of the last step's gradient by part: the vectors that are read, the bag, its weights, and so on."""
    parts = dict.fromkeys(("read", "bag", "weights", "encoder", "share"), 0.0)
    dim = network.dim
    for name, parameter in network.named_parameters():
        grad = parameter.grad
        if grad is None:
            continue
        if name.startswith(("table", "pieces")):
            rows = grad.coalesce().values() if grad.is_sparse else grad
            for part, own in (("read", rows[:, :dim]), ("bag", rows[:, dim:-1]), ("weights", rows[:, -1:])):
                parts[part] += float(own.square().sum())
        else:
            parts["share" if name == "share" else "encoder"] += float(grad.square().sum())
    return {name: square**0.5 for name, square in parts.items()}


def parts(predictor: LinkPredictor, network: Linker, held: Corpus) -> dict[str, float]:
    """MRR and average precision of posts by all of the vectors, and MRR by each of their parts."""
    alone, network.bag_alone = network.bag_alone, False
    posts, articles = (
        torch.from_numpy(predictor.vectors(texts)) for texts in (held.posts.texts, predictor.articles.texts)
    )
    network.bag_alone = alone
    width = network.encoder.width
    related = held.related
    cosines = (posts @ articles.T).numpy()
    pool = related.any(0)
    return {
        "mrr": _mrr(posts, articles, related),
        "ap": Pool(cosines[:, pool], related[:, pool]).metrics()["pooled_ap"],
        "encoder": _mrr(posts[:, :width], articles[:, :width], related),
        "bag": _mrr(posts[:, width:], articles[:, width:], related),
        "share": float(network.share.sigmoid()) if network.settings.bag else 1.0,
    }


def _mrr(posts: Tensor, articles: Tensor, related: Mask) -> float:
    cosines = functional.normalize(posts, dim=1) @ functional.normalize(articles, dim=1).T
    return float(by_row(cosines.numpy(), related)[:, 0].mean())


@torch.no_grad()
def _means(predictor: LinkPredictor, network: Linker, held: Corpus) -> tuple[Tensor, Tensor]:
    """(posts, dim) and (articles, dim) means of the vectors that the encoder reads; pieces of words are left out."""

    def mean(texts: pl.Series) -> Tensor:
        tokens = predictor.encode(texts)
        owners = np.repeat(np.arange(len(tokens)), tokens.lengths)
        ids = torch.from_numpy(tokens.ids.clip(min=0).astype(np.int64))
        sums = torch.zeros(len(tokens), network.dim)
        return sums.index_add(0, torch.from_numpy(owners), network.table.weight[ids, : network.dim])

    return mean(held.posts.texts), mean(predictor.articles.texts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default="ast,cnn,gru,bigru")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    data = read_corpus(args.data)[0]
    rows = list[dict[str, Any]]()
    vectors = {"vectors": str(args.vectors)} if args.vectors else {}
    for model in args.models.split(","):
        settings = {**SMALL, "epochs": args.epochs, "max_epochs": args.epochs, **vectors}
        for row in curve(LinkPredictor(model, settings=settings, seed=args.seed, device="cpu"), data):
            rows.append({"model": model, **row})
            print(json.dumps(rows[-1]), flush=True)
            if args.json:
                args.json.write_text(json.dumps({**provenance(), "curves": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
