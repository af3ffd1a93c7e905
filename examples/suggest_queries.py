"""What will be searched next? A query log, suggestions while one types, and a threshold that hides rare queries.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% A small log, as a search engine writes it: who, what, when.
import json
import tempfile
from pathlib import Path

from ensue import QuerySuggester

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

# %% Train a small MTN.
model = QuerySuggester("mtn", dim=16, heads=2, epochs=12, learning_rate=0.01, warm_up=20, batch_size=16)
model.fit(log)

# %% Suggest the next query, and completions of what is typed so far.
(suggestions,) = model.predict([["flights to rome"]], k=3).values
print("next:", suggestions)
(completions,) = model.predict([["flights to oslo"]], k=3, prefix="os").values
print("os…:", completions)

# %% A query that only one person typed is never shown to another.
(private,) = model.predict([["rome hotels"]], k=5, prefix="my").values
print("my…:", private)
folder.cleanup()
