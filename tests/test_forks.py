"""A process that is forked after a model was asked on several threads answers, or says why it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing, os, threading, time, warnings
warnings.simplefilter("ignore")
import polars as pl
import torch
from ensue import History, Post, SettingError, Text
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import make
from ensue.tasks.classify.baselines import tfidf

torch.set_num_threads(2)
walk = [History(tuple(f"v{(at + step) % 300}" for step in range(5))) for at in range(300)]
texts = [Text((f"a {word} film",), word) for word in ("good", "bad")] * 20
made = [make("next", "markov"), make("next", "core", settings={"dim": 8, "epochs": 1}), make("classify", "tfidf")]
for predictor, data in zip(made, (Histories.of(walk), Histories.of(walk), Texts.of(texts))):
    for _ in predictor.fit(data):
        pass
torch.ones(600, 600).exp().sum()  # a parallel region, as of a large model
pl.DataFrame({"a": [1, 2]}).group_by("a").len()

def asked():
    torch.ones(600, 600).exp().sum()
    excluded = [f"v{at}" for at in range(5, 300)]
    made[1].explain(walk[:2], 1)
    answers = [*made[0].predict(walk, 3), *made[1].predict(walk, 3), *made[0].predict(walk[:1], 2, exclude=excluded)]
    return [[choice.value for choice in one.choices] for one in [*answers, *made[2].predict(texts[:1], 1)]]

before = asked()
holds = threading.Event()
def hold():
    with tfidf._LOCK:
        holds.set()
        time.sleep(60)
threading.Thread(target=hold, daemon=True).start()
holds.wait()

def child():
    assert asked() == before and torch.get_num_threads() == 1
    try:
        made[2].predict([Text(("一部好电影",))], 1)
    except SettingError as error:
        assert "forked after polars had started its threads" in str(error)
        os._exit(7)

pid = os.fork()
if not pid:
    child()
print("forked", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
worker = multiprocessing.get_context("fork").Process(target=child)
worker.start()
worker.join()
print("multiprocessing", worker.exitcode, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc that names threads")
def test_a_forked_process_answers_as_the_one_before_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("forked 7\nmultiprocessing 7\n", 0), done.stderr
