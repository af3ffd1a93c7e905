"""The page of the Python names: what ``ensue`` exports, and what the documented modules hold."""

from __future__ import annotations

import ensue

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Estimators": (
        "ensue",
        ("NextEvent", "TextClassifier", "QuerySuggester", "PostLinker", "Predictions", "load", "make", "add_model"),
    ),
    "Data and model selection": ("ensue", ("read", "split", "evaluate", "compare", "tune", "Tuning")),
    "Callbacks": ("ensue.callbacks", ("EarlyStop", "JSONLines")),
    "Records": ("ensue", ("History", "Text", "Post", "Article")),
    "Answers": ("ensue", ("Answer", "Choice", "Attribution", "TextAnswer", "LinkAnswer", "Link", "SimilarSession")),
    "Explanations": (
        "ensue",
        ("Explanation", "TextExplanation", "QueryExplanation", "LinkExplanation", "Passage", "Deletion"),
    ),
    "Errors": ("ensue", ("EnsueError", "DataError", "SettingError", "ModelFolderError")),
    "Ask a service": ("ensue.client", ("Client", "AsyncClient")),
    "Streams": ("ensue.stream", ("SQLiteQueue", "partition_of")),
    "A search over vectors": ("ensue.tasks.link.vector_index", ("VectorIndex",)),
    "Made-up data with known answers": ("ensue.demo.town", ("Town", "make_town")),
}
"""A heading, the module that names are imported from, and the names."""


def documented() -> list[tuple[str, str]]:
    """(module, name) of every documented name.

    Raises:
        ValueError: a public name of ``ensue`` that has no place here.
    """
    documented_names = [(module, name) for module, names in GROUPS.values() for name in names]
    missing = set(ensue.__all__) - {name for _, name in documented_names} - {"__version__"}
    if missing:
        raise ValueError(f"scripts/site/api.py: no group holds {', '.join(sorted(missing))}")
    return documented_names


def page() -> str:
    """Markdown with a directive a name."""
    documented()
    text = [
        "# Python",
        "",
        "Everything below is imported from the module that its heading names. Each example is run by a test.",
        "`ensue.__version__` is the version, a text.",
    ]
    for heading, (module, names) in GROUPS.items():
        text += ["", f"## {heading}", "", f"From `{module}`:", "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
        for name in names:
            value = getattr(__import__(module, fromlist=[name]), name)
            if isinstance(value, type):
                text += [f".. autoclass:: {name}", "   :members:", "   :inherited-members: Exception, object", ""]
            else:
                text += [f".. autofunction:: {name}", ""]
        text.append("```")
    return "\n".join(text) + "\n"
