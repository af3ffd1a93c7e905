"""The command ``demo``: a made-up event, five small models, and their page."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.cli import display, tasks
from ensue.cli.options import Json, Seed
from ensue.errors import SettingError
from ensue.tasks import NEXT

if TYPE_CHECKING:
    from ensue.demo.models import Demo


def demo(
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write: models, scenario, logs")] = Path(
        "ensue-demo"
    ),
    serve: Annotated[bool | None, typer.Option("--serve/--no-serve", help="serve the page after training")] = None,
    host: Annotated[str, typer.Option(help="address of the page")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0: any free one", min=0, max=65535)] = 8000,
    html: Annotated[Path | None, typer.Option(help="plot one explained cascade to this page")] = None,
    json: Json = False,
) -> None:
    """Train five small models on a made-up event and serve a page that shows them.

    Takes a minute or two, needs no network, and the page is for this machine alone.
    """
    is_served = sys.stdin.isatty() if serve is None else serve
    if is_served:
        _require_page()
    from ensue import figures  # torch and plotly
    from ensue.demo import models, scenario

    fitted = models.run(seed, log=display.log, progress=display.training)
    folders = fitted.save(output / "models")
    story = output / "story.json"
    scenario.write_story(fitted, story, seed)
    scenario.write_logs(fitted.story, output / "logs")
    if html:
        figures.write_html(figures.cascade(fitted.explanation, truth=fitted.story.cascades.edges), html)
        display.log(f"wrote {html}")
    display.print_json({"folder": str(output), **fitted.to_dict()}) if json else _show(fitted)
    edges = output / "logs" / "edges.tsv"
    command = f"ensue serve {output}/models/* --scenario {story} --edges sharing={edges}"
    display.log(f"wrote {output}; show it again with: {command}")
    # Without a terminal nobody could end the service.
    if not is_served:
        return
    if port:
        display.log(f"the page: http://{host}:{port}/  (Ctrl-C ends it)")
    from ensue.serve.server import run as run_service  # only with the extra

    run_service(folders, host=host, port=port, story=story, edges={"sharing": edges})


def _require_page() -> None:
    """Refuse before the training what the page would lack after it.

    Raises:
        SettingError: the extra is not installed.
    """
    if missing := [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]:
        raise SettingError(
            f"the page needs {missing[0]}; install it with: pip install 'ensue[serve]', or train without it: "
            "ensue demo --no-serve"
        )


def _show(fitted: Demo) -> None:
    """Print the metrics, one explained cascade, and how often attention finds the true edges."""
    rows = []
    for row in fitted.rows:
        metric = row.metric.upper() if row.metric.startswith("mrr") else row.metric
        rows.append(
            (
                f"{row.question}\n{metric}, {row.num_questions:,} questions",
                f"{100 * row.score:.1f} ± {100 * row.half_width:.1f}\n{row.model}",
                f"{100 * row.baseline_score:.1f}\n{row.baseline}",
                f"{100 * row.ceiling:.1f}",
            )
        )
    title = "last two days (test), metrics in % ± half of the 95 % interval; ceiling: the true probabilities"
    display.table(("question", "model", "best baseline", "ceiling"), rows, wraps=("question",), title=title)
    for row in fitted.rows:
        display.line(f"{row.name}: {row.verdict}")
    command = tasks.commands_of(NEXT)
    command.show_attention(fitted.explanation)
    tasks.show_answer(fitted.explanation.answer, command)
    for line in fitted.lines():
        display.line(line)
