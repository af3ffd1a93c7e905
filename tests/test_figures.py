from __future__ import annotations

import stat
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ensue import Answer, Explanation, SettingError, figures

# b at 90 s leaned on a wholly; the second a, at 2 h, a quarter on the first a and the rest on b.
STORY = Explanation(
    values=("a", "b", "a"),
    times=(0.0, 90.0, 7200.0),
    dependency=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.25, 0.75, 0.0)),
    influence=(0.5, 0.2, 0.3),
    answer=Answer(()),
)


def long_story(num_events: int) -> Explanation:
    rows = tuple(tuple(1 / max(j, 1) if k < j else 0.0 for k in range(num_events)) for j in range(num_events))
    values = tuple(f"u{i % 7}" for i in range(num_events))
    return Explanation(values, (), rows, (1 / num_events,) * num_events, Answer(()))


def named(figure: Any, name: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name == name]


def drawn(figure: Any) -> list[tuple[float, int, float, int, float]]:
    """The lines: from where (x, row) to where, and how wide."""
    found = []
    for trace in named(figure, "attention"):
        for at in range(0, len(trace.x), 3):
            assert trace.x[at + 2] is trace.y[at + 2] is None
            found.append((trace.x[at], trace.y[at], trace.x[at + 1], trace.y[at + 1], trace.line.width))
    return sorted(found)


def test_a_line_joins_each_event_to_what_it_leaned_on_as_wide_as_the_weight() -> None:
    # a at 0 h, b at .025 h, a at 2 h, and the answer 6 % of the span later, at 2.12 h.
    assert drawn(figures.cascade(STORY)) == [
        (0.0, 0, 0.025, 1, 7.0),  # 1.0
        (0.0, 0, 2.0, 2, 2.5),  # .25
        (0.0, 0, pytest.approx(2.12), 3, 4.0),  # .5
        (0.025, 1, 2.0, 2, 5.5),  # .75
        (0.025, 1, pytest.approx(2.12), 3, 2.5),  # .2
        (2.0, 2, pytest.approx(2.12), 3, 2.5),  # .3
    ]


def test_a_value_that_comes_twice_has_two_rows() -> None:
    layout = figures.cascade(STORY).layout
    assert list(layout.yaxis.tickvals) == [0, 1, 2, 3]
    assert list(layout.yaxis.ticktext) == ["a", "b", "a", "next"]
    assert layout.yaxis.autorange == "reversed"
    assert layout.xaxis.title.text == "h after the first event"
    assert layout.title.text == "Attention weights are not causes"


def test_an_event_is_as_large_as_what_later_ones_leaned_on_it() -> None:
    (events,) = named(figures.cascade(STORY), "events")
    assert list(events.marker.size) == [
        20.0,
        pytest.approx(8 + 12 * 0.95 / 1.75),
        pytest.approx(8 + 12 * 0.3 / 1.75),
        8,
    ]
    assert list(events.marker.symbol) == ["circle"] * 3 + ["diamond-open"]
    assert events.text[0] == "a: total weight from later events 1.75"


def test_a_line_tells_both_values_the_weight_and_the_time_between() -> None:
    (weights,) = named(figures.cascade(STORY), "weights")
    assert weights.text[0] == "b attends to a<br>weight 1.000<br>1.5 min between"
    assert weights.text[1] == "a attends to b<br>weight 0.750<br>1.98 h between"  # 7110 s / 3600
    assert weights.text[3] == "next attends to a<br>weight 0.500"
    assert (weights.x[0], weights.y[0]) == (0.0125, 0.5)


def test_without_a_clock_events_stand_at_equal_distances_and_no_line_tells_a_time() -> None:
    figure = figures.cascade(long_story(3))
    assert [line[:4] for line in drawn(figure)][:2] == [(0.0, 0, 1.0, 1), (0.0, 0, 2.0, 2)]
    assert "between" not in str(named(figure, "weights")[0].text)
    assert figure.layout.xaxis.title.text == "event"


@pytest.mark.parametrize("num_events", [2, 60])
def test_of_long_histories_the_strongest_sources_alone_are_drawn(num_events: int) -> None:
    figure = figures.cascade(long_story(num_events))
    by_target = Counter(line[3] for line in drawn(figure))
    assert len(figure.layout.yaxis.ticktext) == num_events + 1
    assert max(by_target.values()) == min(3, num_events)
    assert all(1 / target >= 0.05 for target in by_target if target < num_events)


def test_true_edges_are_dashed_where_the_earlier_value_may_infect_the_later() -> None:
    # (b, a): the third event after the second. (a, c) and the pair (a, a) are not in this history.
    (true,) = named(figures.cascade(STORY, truth={("b", "a"), ("a", "c")}), "true edge")
    assert (list(true.x), list(true.y)) == ([0.025, 2.0, None], [1, 2, None])
    assert true.line.dash == "dot"


def test_without_truth_nothing_is_dashed() -> None:
    assert named(figures.cascade(STORY), "true edge") == []


def test_a_value_is_text_never_markup() -> None:
    label = '<a href="x">&</a>'
    story = Explanation((label, "b"), (), ((0.0, 0.0), (1.0, 0.0)), (0.5, 0.5), Answer(()))
    figure = figures.cascade(story)
    assert figure.layout.yaxis.ticktext[0] == '&lt;a href="x"&gt;&amp;&lt;/a&gt;'
    assert "<a" not in str([trace.text for trace in figure.data])


class Fetches(HTMLParser):
    """Every attribute that would make a browser fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in {"src", "href", "srcset", "data"}]


def fetches(page: str) -> list[str]:
    reader = Fetches()
    reader.feed(page)
    return reader.found


def test_the_page_holds_all_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "story.html"
    story = Explanation(("</script><img src='https://x'>", "b"), (), ((0.0,), (1.0,)), (0.5, 0.5), Answer(()))
    figures.write_html(figures.cascade(story), path)
    page = path.read_text(encoding="utf-8")
    assert fetches(page) == []
    assert "Plotly.newPlot" in page
    assert len(page) > 1_000_000  # Plotly's own code is inside


def test_the_search_for_fetches_finds_one() -> None:
    (found,) = fetches(figures.cascade(STORY).to_html(include_plotlyjs="cdn"))
    assert found.startswith("script src=https://")


def test_a_page_leaves_no_draft_behind(tmp_path: Path) -> None:
    figures.write_html(figures.cascade(STORY), tmp_path / "story.html")
    assert [file.name for file in tmp_path.iterdir()] == ["story.html"]


def test_a_page_is_replaced_whole_and_readable_like_any_new_file(tmp_path: Path) -> None:
    path, other = tmp_path / "story.html", tmp_path / "other"
    path.write_text("old")
    other.write_text("")
    figures.write_html(figures.cascade(STORY), path)
    first = path.read_bytes()
    figures.write_html(figures.cascade(STORY), path)
    assert path.read_bytes() == first != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_page_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder.html"
    path.mkdir()
    with pytest.raises(SettingError, match=r"folder\.html: is not a regular file"):
        figures.write_html(figures.cascade(STORY), path)
    with pytest.raises(SettingError, match="no folder ") as missing:
        figures.write_html(figures.cascade(STORY), tmp_path / "no" / "story.html")
    assert "\n" not in str(missing.value)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.html"]


def test_bars_and_lines_hold_a_series_each() -> None:
    values: dict[str, list[float | None]] = {"one": [1.0, 0.25], "two": [None, 3.0]}
    for draw in (figures.bars, figures.lines):
        figure = draw("title", "axis", ["32", "64"], values)
        assert [part.name for part in figure.data] == ["one", "two"] and figure.layout.showlegend
        assert [list(part.x) for part in figure.data] == [["32", "64"]] * 2
        assert [list(part.y) for part in figure.data] == list(values.values())
        assert figure.layout.xaxis.type == "category"  # sizes stand at equal distances
        assert (figure.layout.title.text, figure.layout.yaxis.title.text) == ("title", "axis")
    assert list(figures.bars("", "", ["a", "b"], values).data[1].text) == ["", "3"]
    assert not figures.lines("", "", ["a"], {"": [1.0]}).layout.showlegend


def test_several_figures_share_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    bars = figures.bars("</body>", "axis", ["a"], {"": [1.0]})
    figures.write_html(figures.cascade(STORY), path, bars, figures.lines("lines", "axis", ["a"], {"": [1.0]}))
    page = path.read_text(encoding="utf-8")
    assert fetches(page) == []
    for name in ("figure", "figure2", "figure3"):
        assert page.count(f'<div id="{name}"') == 1
    assert page.rstrip().endswith("</html>") and page.index('id="figure3"') < page.rindex("</body>")
    figures.write_html(bars, path)
    assert len(page) < 1.1 * len(path.read_text(encoding="utf-8"))  # Plotly's code is inside once


def test_a_model_that_weighs_nothing_between_events_has_its_answer_alone() -> None:
    figure = figures.cascade(Explanation(("a", "b"), (), (), (0.25, 0.75), Answer(())))
    assert [(line[1], line[3]) for line in drawn(figure)] == [(0, 2), (1, 2)]
    assert named(figure, "weights")[0].text[0].startswith("next attends to b")
