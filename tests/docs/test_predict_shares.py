"""The guide is run."""

from tests.docs.pages import check_page


def test_the_guide_shows_what_is_printed() -> None:
    check_page("docs/guides/predict_shares.md")
