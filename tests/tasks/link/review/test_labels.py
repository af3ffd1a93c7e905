"""Labels of several readers in one file: who said what, taken back, claimed, and counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ensue import DataError
from ensue.tasks.link.review.labels import NO, UNSURE, YES, Labels


def said(path: Path, *labels: tuple[str, str, int]) -> Labels:
    """(reader, post, what they say) of each, in a file; then as the first reader sees it."""
    for reader, name, own in labels:
        Labels(path, reader).add(name, own)
    return Labels(path, labels[0][0])


def test_labels_of_others_are_seen_and_the_majority_counts(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    ana, bo = Labels(path, "ana"), Labels(path, "bo")
    ana.add("p1", YES)
    bo.refresh()
    assert bo.given == {"p1": {"ana": YES}} and bo.verdict("p1") == YES and bo.verdict("p2") is None
    bo.add("p1", NO)
    ana.refresh()
    assert ana.verdict("p1") == UNSURE and ana.disagreements() == {"p1": {"ana": YES, "bo": NO}}
    # Who has not labelled it may settle what others left open.
    assert Labels(path, "cy").verdict("p1") is None
    Labels(path, "cy").add("p1", NO)
    ana.refresh()
    assert ana.verdict("p1") == NO
    ana.add("p1", NO)  # what somebody said last counts
    assert ana.disagreements() == {} and ana.counts()["ana"] == {NO: 1}


def test_a_label_is_taken_back_by_who_gave_it_also_after_a_break(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    said(path, ("ana", "p1", YES), ("ana", "p2", NO), ("bo", "p3", YES))
    again = Labels(path, "ana")
    assert again.mine == ["p1", "p2"]
    assert [again.undo(), again.undo(), again.undo()] == ["p2", "p1", None]
    assert again.verdict("p2") is None and again.verdict("p3") == YES
    assert Labels(path, "bo").given["p1"] == {}


def test_files_without_names_are_read_and_torn_lines_are_mended(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"id": "p1", "relevant": true}\n\n{"look": 2}\n{"id": "p2", "rel')
    found = Labels(path, "ana")
    assert (found.given, found.looks) == ({"p1": {"": YES}}, 2)
    assert path.read_text().endswith('{"look": 2}\n')
    assert found.look() == 2 and Labels(path).look() == 3
    found.add("p2", UNSURE)
    assert json.loads(path.read_text().splitlines()[-1]) == {"id": "p2", "relevant": None, "by": "ana"}
    path.write_text('{"id": "p1", "relevant": "yes"}\n')
    with pytest.raises(DataError, match=", line 1: is not a label; expected"):
        Labels(path)


def test_agreement_by_hand(tmp_path: Path) -> None:
    found = said(
        tmp_path / "labels.jsonl",
        *(("ana", f"p{n}", own) for n, own in enumerate([YES, YES, NO, NO, YES, UNSURE])),
        *(("bo", f"p{n}", own) for n, own in enumerate([YES, YES, NO, YES, UNSURE, NO])),
    )
    # Four posts with two sure labels, three alike: 5 yes and 3 no. Observed 2 x 1 x 1 / 1 = 2, expected
    # 2 x 5 x 3 / 7 = 30 / 7: alpha is 1 - 14 / 30.
    assert found.agreement() == pytest.approx((4, 3, 1 - 14 / 30))
    assert said(tmp_path / "one.jsonl", ("ana", "p1", YES), ("bo", "p1", YES)).agreement() == (1, 1, None)
    assert said(tmp_path / "two.jsonl", ("ana", "p1", YES)).agreement() == (0, 0, None)


CLAIMING = """
import sys
from pathlib import Path
from ensue.tasks.link.review.labels import Labels
labels = Labels(Path(sys.argv[1]), "bo")
for line in sys.stdin:
    verb, name = line.split()
    print(labels.claim(name) if verb == "claim" else labels.release(name) or "done", flush=True)
"""


def test_a_post_that_somebody_looks_at_is_shown_to_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    ana = Labels(path, "ana")
    command = [sys.executable, "-c", CLAIMING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bo:
        assert bo.stdin is not None and bo.stdout is not None

        def tell(line: str) -> str:
            assert bo.stdin is not None and bo.stdout is not None
            bo.stdin.write(f"{line}\n")
            bo.stdin.flush()
            return bo.stdout.readline().strip()

        assert tell("claim p1") == "True"
        assert not ana.claim("p1") and ana.claim("p2")
        assert tell("claim p2") == "False"
        ana.add("p2", YES)  # to write lets go of no claim
        assert tell("claim p2") == "False"
        ana.release("p2")
        assert tell("claim p2") == "True"
        bo.kill()
    assert ana.claim("p1") and ana.claim("p2")
