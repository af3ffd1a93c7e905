"""What papers print is read from files beside the reader, and comes with the package."""

from __future__ import annotations

from importlib.resources import files

from ensue_studies.papers import Paper


def test_lists_take_their_names_from_the_columns_around_them() -> None:
    paper = Paper("hidan")
    assert paper.rows("seconds")["rnn"] == {"memes": 22, "weibo": 145, "twitter": 261}
    assert paper.rows("prediction", "weibo")["hidan"]["hit@100"] == 17.30
    assert list(paper.tables("prediction")) == ["memes", "weibo", "twitter"]
    assert paper.rows("statistics")["memes"] == {"users": 1109, "cascades": 42492, "mean length": 8.8}
    assert paper["parameters"]["hidan"] == "25.6k"
    assert Paper("anywhere")["metrics"]["link"] == ["mrr", "pooled_ap"]


def test_every_file_is_read() -> None:
    names = {path.name for path in files("ensue_studies.papers").iterdir() if path.name.endswith(".toml")}
    assert names == {f"{name}.toml" for name in ("anywhere", "ast", "centrality", "hidan", "mtn", "sansr")}
