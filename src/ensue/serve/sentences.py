"""The sentences beside a figure, which say what it shows.

Weights are what a model attended to, not causes; so a sentence carries what was measured: how far the score falls when
the thing attended to most is taken out.
"""

from __future__ import annotations

from typing import TypeVar

from ensue.answers import Choice
from ensue.errors import DataError

NOT_CAUSES = "Attention weights are not causes."
AnyChoice = TypeVar("AnyChoice")


def chosen(choices: tuple[AnyChoice, ...], place: int) -> AnyChoice:
    """The choice at a place.

    Raises:
        DataError: there is none.
    """
    if not choices:
        raise DataError("the answer has no choice to draw")
    if place >= len(choices):
        raise DataError(f'field "choice" is {place}, but the answer has {len(choices)} choices, counted from 0')
    return choices[place]


def of_events(choice: Choice) -> str:
    """Which event a choice attended to most, and the drop of its score without that."""
    if not choice.attributions:
        return f"{choice.value} (score {choice.score:.3f}) has no attributions: it is generally frequent."
    most = choice.attributions[0]
    sentence = f"{choice.value} (score {choice.score:.3f}): largest attribution {most.value}, weight {most.weight:.2f}"
    return f"{sentence}." if most.score_drop is None else f"{sentence}; without it the score {falls(most.score_drop)}."


def falls(score_drop: float) -> str:
    """How far a score falls, in words."""
    if abs(score_drop) < 0.0005:
        return "stays as it is"
    return f"falls by {score_drop:.3f}" if score_drop > 0 else f"rises by {-score_drop:.3f}"
