"""Run the command ``demo``: fit five models on a made-up event and serve them with the page."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from json import dumps
from json import loads as json_of
from pathlib import Path
from urllib.request import Request, urlopen

from ensue import figures
from ensue import serve as service
from ensue.cli import show, show_events
from ensue.demo.models import Demo, run
from ensue.demo.scenario import write_logs, write_story
from ensue.errors import EnsueError, SettingError


def tell(seed: int, out: Path, serve: bool | None, host: str, port: int, html: Path | None, *, as_json: bool) -> None:
    """Fit the models of a seed into a folder, print their metrics, and serve the page on a terminal."""
    if serve is not False:
        _require_page()
    found = run(seed, log=show.remark, progress=show.training)
    folders = found.save(out / "models")
    write_story(found, out / "story.json", seed)
    write_logs(found.story, out / "logs")
    if html:
        figures.write_html(figures.cascade(found.explanation, truth=found.story.cascades.edges), html)
        show.remark(f"wrote {html}")
    show.put_json({"folder": str(out), **found.to_dict()}) if as_json else _show(found)
    edges = out / "logs" / "edges.tsv"
    again = f"ensue serve {out}/models/* --scenario {out}/story.json --edges sharing={edges}"
    show.remark(f"wrote {out}; show it again with: {again}")
    if serve is False:
        return
    if serve or sys.stdin.isatty():
        _serve(folders, out / "story.json", edges, host, port)
    else:
        show.remark(_try_page(folders, out / "story.json"))


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


def _serve(folders: dict[str, Path], story: Path, edges: Path, host: str, port: int) -> None:
    if port:
        show.remark(f"the page: http://{host}:{port}/  (Ctrl-C ends it)")
    service.serve(folders, host=host, port=port, story=story, edges={"sharing": edges})


def _try_page(folders: dict[str, Path], story: Path) -> str:
    """Serve, fetch the page, query every model once, and stop.

    Raises:
        EnsueError: the service does not start, or a model does not answer.
    """
    named = [f"{name}={folder}" for name, folder in folders.items()]
    command = [sys.executable, "-m", "ensue", "serve", *named, "--scenario", str(story), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            if not line.startswith("{"):
                raise EnsueError(f"the service did not start: {line.strip()}")
            address = json_of(line)["address"]
            size = len(_fetch(f"{address}/"))
            asked = json_of(_fetch(f"{address}/v1/story").decode())["panels"]
            for name, (first, *_) in asked.items():
                body = dumps({"record": first["record"], "k": 3}).encode()
                _fetch(f"{address}/v1/models/{name}/figure", body)
        except (OSError, KeyError, ValueError) as error:
            raise EnsueError(f"the page did not answer: {error}") from error
        finally:
            process.terminate()
            process.stderr.close()
    return f"the page answers ({size:,} bytes, {len(asked)} panels asked); see it: ensue demo --serve"


def _fetch(address: str, body: bytes | None = None) -> bytes:
    headers = {"content-type": "application/json"}

    with urlopen(Request(address, body, headers), timeout=30) as answer:
        found: bytes = answer.read()
    return found


def _show(found: Demo) -> None:
    """Print the metrics, one explained cascade, and how often attention finds the true edges."""
    rows = []
    for row in found.rows:
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
    show.table(("question", "model", "best baseline", "ceiling"), rows, wraps=("question",), title=title)
    for row in found.rows:
        show.line(f"{row.name}: {row.verdict}")
    show_events.explanation(found.explanation)
    for line in found.lines():
        show.line(line)
