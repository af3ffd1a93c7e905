"""What the page says of a model that is not the demonstration's: when it was written, how it scored, what to ask it.

Examples come from what the model may show anybody: values that it answers with, its commonest words, the titles of its
articles. No history or text that was learned is among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ensue.evaluation import scores_of
from ensue.records import History, Text
from ensue.serve import tasks

SHOWN = 6
"""Examples at most."""
WORDS = 200
"""Of a model of texts, the commonest words that an example may be."""
LONGEST = 200_000
"""Characters of a card that are read."""


def facts(folder: Path) -> dict[str, Any]:
    """The day that a folder's model was written (ISO, UTC) and the scores of its card; ``None`` where there is none."""
    found: dict[str, Any] = {"trained": None, "scores": None}
    try:
        written = (folder / "settings.json").stat().st_mtime
        found["trained"] = datetime.fromtimestamp(written, UTC).date().isoformat()
        with (folder / "CARD.md").open(encoding="utf-8") as card:
            found["scores"] = scores_of(card.read(LONGEST))
    except (OSError, ValueError):  # a folder may lack its card, or be replaced at this moment
        return found
    return found


def examples(predictor: Any) -> list[dict[str, Any]]:
    """Records that can be asked, most telling first."""
    if predictor.task == "link":
        known = predictor.articles
        texts = [title or body for title, body in zip(known.titles.head(SHOWN), known.bodies.head(SHOWN), strict=True)]
        return [{"text": text[:200]} for text in texts]
    if predictor.task == "classify":
        return [{"texts": [word]} for word in _telling(predictor)] if not predictor.facts["paired"] else []
    if predictor.task == "suggest":
        asked: Any = tasks.Typed(History(("a",)), "")
    else:
        asked = History((" ",))  # nobody's value: the answer is what is common
    (line,) = tasks.answer(predictor, tasks.Kind("predict", SHOWN, evidence=False), [asked])
    return [{"values": [choice["value"]]} for choice in json.loads(line)["choices"]]


def _telling(predictor: Any) -> Iterable[str]:
    """Of the commonest words, the one that says most for each label."""
    words = [word for word in predictor.tokenizer.vocabulary.values[:WORDS] if word.isalpha() and len(word) > 3]
    if not words:
        return []
    lines = tasks.answer(predictor, tasks.Kind("predict", 1, evidence=False), [Text((word,)) for word in words])
    found: dict[str, tuple[float, str]] = {}
    for word, line in zip(words, lines, strict=True):
        choice = json.loads(line)["choices"][0]
        found[choice["value"]] = max(found.get(choice["value"], (0.0, "")), (choice["score"], word))
    return [word for _, word in sorted(found.values(), reverse=True)[:SHOWN]]
