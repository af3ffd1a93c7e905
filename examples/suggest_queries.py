"""What will be searched next? A log of queries, suggestions while one types, and the floor that keeps rare ones back.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% A small log, as a search engine writes it: who, what, when.
import json
import tempfile
from pathlib import Path

from ensue import History, make, read_queries

TRIPS = [
    ("flights to rome", "rome hotels", "rome with children"),
    ("flights to oslo", "oslo hotels", "oslo in winter"),
    ("night trains", "night trains to vienna", "vienna hotels"),
]
rows = [
    {"user": f"u{user}", "query": query, "time": 1_700_000_000 + 86_400 * day + 60 * place}
    for user in range(60)
    for day, trip in enumerate(TRIPS)
    for place, query in enumerate(trip)
]
rows += [{"user": "u1", "query": "my secret illness", "time": 1_800_000_000}]
rows += [{"user": "u1", "query": "rome hotels", "time": 1_800_000_060}]
folder = tempfile.TemporaryDirectory()
log = Path(folder.name) / "log.jsonl"
log.write_text("".join(json.dumps(row) + "\n" for row in rows))

# %% Read it. What was left out is counted.
queries, understood = read_queries(log)
print(f"{len(queries)} sessions; {understood.time}")

# %% Train a small MTN.
predictor = make(
    "suggest",
    "mtn",
    settings={"dim": 16, "heads": 2, "epochs": 12, "learning_rate": 0.01, "warm_up": 20, "batch_size": 16},
)
for _ in predictor.fit(queries):
    pass

# %% Suggest what comes next, and what it may become while somebody types.
(answer,) = predictor.predict([History(("flights to rome",))], k=3)
print("next:", [choice.value for choice in answer.choices])
(typed,) = predictor.predict([History(("flights to oslo",))], k=3, prefix="os")
print("os…:", [choice.value for choice in typed.choices])

# %% What only one person typed is never shown to another.
(private,) = predictor.predict([History(("rome hotels",))], k=5, prefix="my")
print("my…:", [choice.value for choice in private.choices])
folder.cleanup()
