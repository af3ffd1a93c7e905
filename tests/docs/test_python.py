"""The guide to the estimators is run, and its lines are no longer than those of other libraries beside them."""

from __future__ import annotations

import ast
import contextlib
import io

from scripts.site.blocks import FENCE, ROOT
from tests.docs.pages import check_page

PAGE = "docs/guides/python.md"
MAX_LINES = 10
PEERS = {
    "NextEvent": "rectools",
    "TextClassifier": "sklearn",
    "PostLinker": "sentence_transformers",
    "QuerySuggester": "implicit",
}
"""Estimator -> the library that the page shows next to it."""


def comparisons() -> dict[str, tuple[str, str]]:
    """Estimator -> its lines, and those of the other library below them."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text.partition("## Next to other libraries")[2].partition("\n## ")[0]
    code = [body for language, _, body in FENCE.findall(section) if language in ("python", "py")]
    pairs = zip(code[::2], code[1::2], strict=True)
    return {next(name for name in PEERS if f"ensue.{name}(" in ours): (ours, theirs) for ours, theirs in pairs}


def num_lines(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def test_the_guide_shows_what_is_printed() -> None:
    check_page(PAGE)


def test_each_estimator_needs_no_more_lines_than_another_library() -> None:
    pairs = comparisons()
    assert pairs.keys() == PEERS.keys()
    for name, (ours, theirs) in pairs.items():
        modules = {
            module.partition(".")[0]
            for node in ast.walk(ast.parse(theirs))
            for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        }
        assert PEERS[name] in modules
        assert num_lines(ours) <= num_lines(theirs) <= MAX_LINES, name


def test_the_lines_of_scikit_learn_print_what_those_of_the_classifier_print() -> None:
    import ensue

    ours, theirs = comparisons()["TextClassifier"]
    scope: dict[str, object] = {"ensue": ensue}
    printed = []
    for code in (ours, theirs):  # theirs reads the texts and labels of ours
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, PAGE, "exec"), scope)
        printed.append(output.getvalue())
    assert printed[0] == printed[1] == "['yes'] 1.0\n"
