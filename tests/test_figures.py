from __future__ import annotations

import stat
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from ensue import figures
from ensue.answers import Answer, Explanation
from ensue.errors import SettingError
from ensue.stream.board import Board

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


def test_the_cells_hold_the_weights_below_the_diagonal_and_the_answer_last() -> None:
    heat = figures.dependency(STORY).data[0]
    assert [list(row) for row in heat.z] == [
        [None, None, None],
        [1.0, None, None],
        [0.25, 0.75, None],
        [0.5, 0.2, 0.3],
    ]


def test_a_value_that_comes_twice_has_two_rows() -> None:
    layout = figures.dependency(STORY).layout
    assert list(layout.yaxis.tickvals) == [0, 1, 2, 3]
    assert list(layout.yaxis.ticktext) == ["a", "b", "a", "next"]
    assert list(layout.xaxis.ticktext) == ["a", "b", "a"]
    assert layout.yaxis.autorange == "reversed"
    assert layout.title.text == "Weights: what the model leaned on, not causes"


def test_a_cell_tells_both_values_the_weight_and_the_time_between() -> None:
    text = figures.dependency(STORY).data[0].text
    assert text[1][0] == "b leaned on a<br>weight 1.000<br>1.5 min between"
    assert text[2][1] == "a leaned on b<br>weight 0.750<br>1.98 h between"  # 7110 s / 3600
    assert text[3][2] == "next leaned on a<br>weight 0.300"


def test_without_a_clock_a_cell_tells_no_time() -> None:
    assert "between" not in str(figures.dependency(long_story(3)).data[0].text)


@pytest.mark.parametrize("num_events", [2, 60])
def test_short_and_long_histories_have_a_triangle_and_an_answer(num_events: int) -> None:
    heat = figures.dependency(long_story(num_events)).data[0]
    filled = [sum(cell is not None for cell in row) for row in heat.z]
    assert filled == [*range(num_events), num_events]
    assert {len(row) for row in heat.z} == {num_events}


def test_true_edges_are_outlined_where_the_earlier_value_may_infect_the_later() -> None:
    # (b, a): the third event after the second, row 2, column 1. (a, c) and the pair (a, a) are not in this history.
    outline = figures.dependency(STORY, truth={("b", "a"), ("a", "c")}).data[1]
    assert outline.name == "true edge"
    assert list(outline.x) == [0.5, 1.5, 1.5, 0.5, 0.5, None]
    assert list(outline.y) == [1.5, 1.5, 2.5, 2.5, 1.5, None]


def test_without_truth_nothing_is_outlined() -> None:
    assert len(figures.dependency(STORY).data) == 1


def test_a_value_is_text_never_markup() -> None:
    label = '<a href="x">&</a>'
    story = Explanation((label, "b"), (), ((0.0, 0.0), (1.0, 0.0)), (0.5, 0.5), Answer(()))
    figure = figures.dependency(story)
    assert figure.layout.xaxis.ticktext[0] == '&lt;a href="x"&gt;&amp;&lt;/a&gt;'
    assert "<a" not in str(figure.data[0].text)


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
    figures.write_html(figures.dependency(story), path)
    page = path.read_text(encoding="utf-8")
    assert fetches(page) == []
    assert "Plotly.newPlot" in page
    assert len(page) > 1_000_000  # Plotly's own code is inside


def test_the_search_for_fetches_finds_one() -> None:
    (found,) = fetches(figures.dependency(STORY).to_html(include_plotlyjs="cdn"))
    assert found.startswith("script src=https://")


def test_a_page_leaves_no_draft_behind(tmp_path: Path) -> None:
    figures.write_html(figures.dependency(STORY), tmp_path / "story.html")
    assert [file.name for file in tmp_path.iterdir()] == ["story.html"]


def test_a_page_is_replaced_whole_and_readable_like_any_new_file(tmp_path: Path) -> None:
    path, other = tmp_path / "story.html", tmp_path / "other"
    path.write_text("old")
    other.write_text("")
    figures.write_html(figures.dependency(STORY), path)
    first = path.read_bytes()
    figures.write_html(figures.dependency(STORY), path)
    assert path.read_bytes() == first != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_page_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder.html"
    path.mkdir()
    with pytest.raises(SettingError, match=r"folder\.html: the figure cannot be written there \(Is a directory\)"):
        figures.write_html(figures.dependency(STORY), path)
    with pytest.raises(SettingError, match="No such file or directory") as missing:
        figures.write_html(figures.dependency(STORY), tmp_path / "no" / "story.html")
    assert "\n" not in str(missing.value)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.html"]


def test_a_stream_is_drawn_by_hour_and_name() -> None:
    board = Board()
    hour = 3600.0 * 480_000
    board.add(np.array([hour, hour + 3600]), np.array([hour, hour + 3600]), {"model": np.array([1.0, 30.0])})
    board.add(np.array([hour + 3600]), np.array([hour + 3600]), {"model": np.array([2.0]), "frozen": np.array([21.0])})
    model, frozen = figures.stream(board.rows()).data
    assert [time.isoformat() for time in model.x] == ["2024-10-04T00:00:00+00:00", "2024-10-04T01:00:00+00:00"]
    assert (model.name, model.y) == ("model", (1.0, 0.5))  # ranks 1; then 30 and 2
    assert (frozen.name, frozen.y) == ("frozen", (None, 0.0))
    assert [row[0] for row in model.customdata] == [1, 2]


def test_a_stream_without_dates_or_events_is_drawn_too() -> None:
    board = Board()
    assert len(figures.stream(board.rows()).data) == 0
    board.add(np.array([7200.0]), np.array([7200.0]), {"model": np.array([1.0])})
    assert figures.stream(board.rows()).data[0].x == (2.0,)


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
    figures.write_html(figures.dependency(STORY), path, bars, figures.lines("lines", "axis", ["a"], {"": [1.0]}))
    page = path.read_text(encoding="utf-8")
    assert fetches(page) == []
    for name in ("figure", "figure2", "figure3"):
        assert page.count(f'<div id="{name}"') == 1
    assert page.rstrip().endswith("</html>") and page.index('id="figure3"') < page.rindex("</body>")
    figures.write_html(bars, path)
    assert len(page) < 1.1 * len(path.read_text(encoding="utf-8"))  # Plotly's code is inside once


def test_a_model_that_weighs_nothing_between_events_has_its_answer_alone() -> None:

    figure = figures.dependency(Explanation(("a", "b"), (), (), (0.25, 0.75), Answer(())))
    assert [list(row) for row in figure.data[0].z] == [[None, None], [None, None], [0.25, 0.75]]
    assert "next leaned on b" in figure.data[0].text[2][1]
