"""Query suggestion: milliseconds of one answer, answers per second in a batch, two peers, and what training MTN costs.

**Answers.** Five suggestions, one session at a time on one thread, raw queries in, ``Answer`` out: look-up, search with
a beam of 5, scoring and the k-anonymity filter included; with and without the evidence. The models are trained for five
epochs on the sessions given (what has learned little writes on to the last token), and asked the beginnings of the
others.

**Throughput.** Batches of made-up questions, beam 5, every beam written to its full 12 tokens and scored for an end, so
13 passes of the decoder for each, all threads: our Transformer and MTN beside a Marian encoder-decoder of the same
widths, depths and words, under ``generate`` of Hugging Face and under CTranslate2 in float32; all weights are random.
The peers need an environment of their own; give its interpreter with ``--peer``, or their rows are left out:

    pip install torch==2.13.0 transformers ctranslate2
    python benchmarks/suggestions.py SESSIONS [--peer ENV/bin/python] [--json FILE]

**Training.** Seconds of a step of MTN (3+2+3 layers) and of the Transformer of equal depth (4+4) on the same batches,
in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch

from ensue.data.queries import Queries, prefixes, read_queries
from ensue.records import History
from ensue.tasks.suggest import train
from ensue.tasks.suggest.batch import END, FIRST_TOKEN, padded
from ensue.tasks.suggest.catalogue import MODELS
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.settings import Search
from ensue.tasks.suggest.torch_generator import TorchGenerator
from ensue.training.optimizer import make_optimizer
from ensue_studies.results import provenance

K, ASKED, NUM_IDS, ROWS, TURNS, QUERIES, WIDTH, EPOCHS = 5, 200, 4252, 32, 7, 3, 7, 5
SEARCH = Search(beam=K, keep=K, longest=12)

MARIAN = """
import sys, tempfile, time
import torch
import transformers
from transformers import MarianConfig, MarianMTModel

num_ids, threads, rows, width, beam, longest, dim, wide, heads = map(int, sys.argv[1:])
torch.set_num_threads(threads)
torch.manual_seed(0)
config = MarianConfig(
    vocab_size=num_ids + 1, d_model=dim, encoder_layers=4, decoder_layers=4, encoder_attention_heads=heads,
    decoder_attention_heads=heads, encoder_ffn_dim=wide, decoder_ffn_dim=wide, activation_function="relu",
    max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2,
    forced_eos_token_id=None, scale_embedding=True)
model = MarianMTModel(config).eval()
ids = torch.randint(4, num_ids, (rows, width + 1))
"""
GENERATE = """
print(transformers.__version__, flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    with torch.inference_mode():
        found = model.generate(ids, attention_mask=torch.ones_like(ids), num_beams=beam, num_return_sequences=beam,
            do_sample=False, length_penalty=0.6, min_new_tokens=longest, max_new_tokens=longest + 1)
    assert found.shape[0] == rows * beam and longest < found.shape[1] <= longest + 2, found.shape
    print(time.perf_counter() - begun, flush=True)
"""
TRANSLATE = """
import ctranslate2
from ctranslate2.converters.transformers import MarianMTLoader

words = ["<pad>", "<unk>", "<s>", "</s>", *(f"word{number}" for number in range(4, num_ids))]
spec = MarianMTLoader().get_model_spec(model)  # which leaves out the last row of the table
spec.register_source_vocabulary(words)
spec.register_target_vocabulary(words)
spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
spec.config.decoder_start_token, spec.config.add_source_eos = "<s>", False
spec.validate()
spec.optimize()
with tempfile.TemporaryDirectory() as folder:
    spec.save(folder)
    translator = ctranslate2.Translator(folder, compute_type="float32", intra_threads=threads, inter_threads=1)
asked = [[words[number] for number in row] for row in ids.tolist()]
print(ctranslate2.__version__, flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    found = translator.translate_batch(asked, beam_size=beam, num_hypotheses=beam, length_penalty=0.6,
        min_decoding_length=longest, max_decoding_length=longest + 1)
    assert all(len(own.hypotheses) == beam and len(own.hypotheses[0]) >= longest for own in found)
    print(time.perf_counter() - begun, flush=True)
"""
PEERS = {
    "transformers": ("transformers generate, Marian 4+4", GENERATE),
    "ctranslate2": ("CTranslate2 float32, Marian 4+4", TRANSLATE),
}


class Peer:
    """A library that runs a Marian model of our widths in an interpreter of its own."""

    def __init__(self, python: Path, name: str, program: str) -> None:
        own = MODELS["transformer"].settings
        sizes = (NUM_IDS, torch.get_num_threads(), ROWS, WIDTH, K, SEARCH.longest, own.dim, own.wide, own.heads)
        self.process = subprocess.Popen(
            [str(python), "-c", MARIAN + program, *map(str, sizes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self._line()
        if not self.version:
            sys.exit(f"{python}: {name} does not start; try its import there")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self) -> float:
        """Seconds of a batch."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        return float(self._line())


def questions(data: Queries, asked: int = ASKED + 20) -> list[History]:
    """Beginnings of the test sessions, drawn at random."""
    sessions, _ = prefixes(data.part("test").histories)
    drawn = np.random.default_rng(0).permutation(len(sessions))[:asked]
    return [History(sessions.record(row).values) for row in drawn.tolist()]


def answers(model: str, data: Queries) -> list[dict[str, Any]]:
    """Milliseconds of single answers on one thread, and answers per CPU second of one batch of the same sessions.

    Single answers have wall-clock and CPU times; the second is affected less by other programs of the machine.

    Args:
        model: name of a model, which is trained here, or a model folder.
        data: sessions.
    """
    if (Path(model) / "settings.json").exists():
        predictor = SuggestPredictor.load(model, device="cpu")
    else:
        predictor = SuggestPredictor(model, settings={"epochs": EPOCHS}, device="cpu")
        for _ in predictor.fit(data):
            pass
    threads = torch.get_num_threads()
    rows = []
    torch.set_num_threads(1)
    for evidence in (False, True):
        wall = []
        processor = []
        for record in questions(data):
            start_time = time.perf_counter()
            worked = time.process_time()
            predictor.predict([record], K, evidence=evidence)
            wall.append(1000 * (time.perf_counter() - start_time))
            processor.append(1000 * (time.process_time() - worked))
        records = questions(data)[20:]
        worked = time.process_time()
        predictor.predict(records, K, evidence=evidence)
        batch_rate = round(len(records) / (time.process_time() - worked), 1)
        row = {"model": Path(model).name, "evidence": evidence, "batch_per_cpu_second": batch_rate}
        rows.append({**row, **_spread("", wall[20:]), **_spread("cpu_", processor[20:])})
        print(rows[-1], flush=True)
    torch.set_num_threads(threads)
    return rows


def _spread(name: str, found: list[float]) -> dict[str, float]:
    middle, late = np.percentile(found, [50, 95])
    return {f"{name}median_ms": round(float(middle), 1), f"{name}p95_ms": round(float(late), 1)}


def ours(model: str, queries: int) -> Callable[[], float]:
    """Seconds of a batch of made-up sessions; no beam ends before it is full."""
    torch.manual_seed(0)
    kind = MODELS[model].make
    settings = MODELS[model].settings
    network = kind(settings, NUM_IDS).eval()
    network.writer.words.bias.data[END] = -1e4
    ids = np.random.default_rng(0).integers(FIRST_TOKEN, NUM_IDS, (ROWS, queries, WIDTH))
    queries = padded(ids.tolist())
    generator = TorchGenerator(network, torch.device("cpu"))

    def turn() -> float:
        start_time = time.perf_counter()
        result = generator.search(generator.encode(queries), queries, SEARCH)
        assert bool((result.tokens > 0).all())
        return time.perf_counter() - start_time

    return turn


def throughput(python: Path | None) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Suggestions a second, in turns, and the versions of the peers."""
    runs = {"transformer, 4+4": ours("transformer", 1), "mtn, 3+2+3, three queries": ours("mtn", QUERIES)}
    peers = {} if python is None else {name: Peer(python, name, program) for name, (_, program) in PEERS.items()}
    runs |= {PEERS[name][0]: peer.turn for name, peer in peers.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS + 1):
        for name, run in runs.items():
            times[name].append(run())
    rows = []
    own = times["transformer, 4+4"][1:]
    for name, result in times.items():
        ratio = statistics.median(other / mine for other, mine in zip(result[1:], own, strict=True))
        rate = ROWS * K / statistics.median(result[1:])
        rows.append({"model": name, "suggestions_a_second": round(rate), "ours_over_it": round(ratio, 2)})
        print(rows[-1], flush=True)
    return rows, {name: peer.version for name, peer in peers.items()}


def training(data: Queries) -> list[dict[str, Any]]:
    """Seconds of a step, in turns on the same batches."""
    part = data.part("train")
    runs = {}
    for name in ("mtn", "transformer"):
        predictor = SuggestPredictor(name, device="cpu")
        train.learn_words(predictor, part)
        torch.manual_seed(0)
        network = predictor.new_network().train()
        assert predictor.schedule is not None
        runs[name] = network, make_optimizer(network, predictor.schedule)
        source = predictor.windows(part.histories)
        size = predictor.schedule.batch_size
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for index in source.plan(size, 0)[: 4 * TURNS]:
        batch = source.batch(index)
        for name, (network, optimizer) in runs.items():
            start_time = time.perf_counter()
            worked = time.process_time()
            optimizer.zero_grad()
            network.loss(batch).backward()
            optimizer.step()
            times[name].append((time.perf_counter() - start_time, time.process_time() - worked))
    rows = []
    peer = np.array(times["transformer"][2:])
    for name, result in times.items():
        own = np.array(result[2:])
        wall, processor = np.median(own / peer, axis=0).round(2).tolist()
        step = round(1000 * float(np.median(own[:, 0])), 1)
        rows.append({"model": name, "step_ms": step, "over_transformer": wall, "cpu_over_transformer": processor})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("--models", default="mtn,best", help="names or model folders")
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rates, versions = throughput(args.peer)
    data, _ = read_queries(args.sessions)
    cost = training(data)
    rows = [row for name in args.models.split(",") if name for row in answers(name, data)]
    if args.json:
        about = {
            "k": K,
            "beam": SEARCH.beam,
            "batch": ROWS,
            "threads": torch.get_num_threads(),
            **versions,
        }
        tables = {"answers": rows, "throughput": rates, "training": cost}
        args.json.write_text(json.dumps({**provenance(), **about, "tables": tables}, indent=1) + "\n")


if __name__ == "__main__":
    main()
