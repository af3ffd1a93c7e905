"""What the service replies, as models for the document; most replies are lines that the library has written."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """What is wrong with a request."""

    model_config = ConfigDict(extra="forbid")
    error: str = Field(description="one line: where, what is wrong, what to do")
    hint: str = Field("", description="what to do, where the line does not say so")


class Served(BaseModel):
    """A served model; the models of each task have more to say."""

    model_config = ConfigDict(extra="allow")
    name: str
    task: str
    view: str = Field(description="panel of the page")
    model: str
    version: int
    since: str = Field(description="start of this version, ISO")
    trained: str | None = Field(description="the day it was written, ISO")
    scores: dict[str, object] | None = Field(description="of its card: metrics, protocol, verdict")
    drift: dict[str, object] | None = Field(
        description="share `unknown` of the ids and words in requests of the last 7 days"
    )
    examples: list[dict[str, object]] = Field(description="example records")


class Drawing(BaseModel):
    """A figure of Plotly, and a sentence that says what it shows."""

    figure: dict[str, object]
    words: str


class Learned(BaseModel):
    """What an update came to."""

    model_config = ConfigDict(extra="allow")
    accepted: bool
    version: int = Field(description="the active version now")
    slices: list[dict[str, object]] = Field(description="test data of the update")
    held: str
    max_drop: float | None
    loss: float
    verdict: str
    warning: str = Field(description="what the test could not cover; empty if stored examples were tested")


class Queued(BaseModel):
    """Events that wait to be learned."""

    accepted: int
    passed_over: int = Field(description="ignored events of other kinds, such as searches")


class Status(BaseModel):
    """How the process is."""

    status: str
    refused: dict[str, str] | None = Field(
        None, description="by model, why the new version in its folder does not answer; the previous one does"
    )
