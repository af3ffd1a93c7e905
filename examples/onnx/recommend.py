"""Answer from an exported folder of task next with onnxruntime alone: python recommend.py FOLDER ITEM ..."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

folder, *items = sys.argv[1:]
# The index of an item in the vocabulary is its id; ids 0 and 1 are padding and unknown.
vocabulary = json.loads((Path(folder) / "vocabulary.json").read_text(encoding="utf-8"))
ids = {value: id for id, value in enumerate(vocabulary)}
history = [ids[item] for item in items if item in ids]

session = onnxruntime.InferenceSession(Path(folder) / "network.onnx", providers=["CPUExecutionProvider"])
# One row per session, padded with 0 at the end; seconds where the network reads times.
inputs = {"ids": np.array([history], np.int64), "times": np.arange(len(history), dtype=np.float64)[None]}
known = [node.name for node in session.get_inputs()]
(scores,) = session.run(["scores"], {name: inputs[name] for name in known})[0]

# Scores of padding and unknown are -inf: their probability is 0.
probabilities = np.exp(scores - scores.max())
probabilities /= probabilities.sum()
for id in np.argsort(-scores, kind="stable")[:5]:
    print(f"{vocabulary[id]} {probabilities[id]:.4f}")
