"""The command ``reproduce``: the tables of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display
from ensue.cli.options import names_of, present
from ensue.errors import SettingError


def reproduce(
    paper: Annotated[str, typer.Argument(help="hidan, sansr, mtn, centrality, ast or anywhere")],
    data: Annotated[Path, typer.Option(callback=present, help="folder with the data sets of the paper")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer models and epochs, minutes instead of hours")] = False,
    models: Annotated[str, typer.Option(help="only these rows; names, separated by commas")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="trainings per model")] = 1,
    json: Annotated[Path | None, typer.Option(help="write tables, command, commit and machine to this file")] = None,
) -> None:
    """Rebuild the tables of a paper, next to the baselines.

    Finished runs are cached next to the JSON file: the same command continues after an interruption.
    """
    try:
        import ensue_studies
    except ImportError as error:
        raise SettingError(
            "the studies are a package of their own; install it with: pip install ensue-studies "
            "(in a checkout: pip install ./studies)"
        ) from error

    ensue_studies.require_paper(paper)
    from ensue_studies.runner import Request

    request = Request(
        models=names_of(models),
        quick=quick,
        seeds=seeds,
        log=display.log,
        progress=display.training,
        cache=json.with_suffix(".runs.json") if json else None,
    )
    study = ensue_studies.reproduce(paper, data, request)
    display.line(study.page)
    if json:
        study.write(json)
        display.log(f"wrote {json}")
