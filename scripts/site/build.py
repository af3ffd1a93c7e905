"""Make the generated pages of the site and build it; warnings are errors, and no page may ask another host.

python scripts/site/build.py [--outputs] [--open]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import webbrowser
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from ensue.tasks import TASKS  # noqa: E402
from ensue_studies.latex import to_latex  # noqa: E402
from scripts.site import api, commands, papers, settings  # noqa: E402

DOCS = ROOT / "docs"
MADE = DOCS / "generated"
BUILT = DOCS / "_build" / "html"
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Tag -> attribute whose address a browser fetches as soon as it sees it."""
ADDRESS = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import\s+[\"']((?:https?:)?//[^\"']+)")


def generate() -> None:
    """Write every generated page, leaving alone what has not changed, so that Sphinx need not read it again."""
    pages = {
        "settings.md": settings.page(),
        **{f"settings_{task}.md": settings.page_of(task) for task in TASKS},
        "commands.md": commands.page(),
        "api.md": api.page(),
    }
    for name in papers.LEADS:
        text = (ROOT / "studies" / "results" / f"{name}.md").read_text(encoding="utf-8")
        pages[f"studies/{name}.tex"] = to_latex(text)
        title, _, remainder = text.partition("\n")
        latex = f"For LaTeX: {{download}}`{name}.tex </generated/studies/{name}.tex>`."
        pages[f"studies/{name}.md"] = f"---\norphan: true\n---\n\n{title}\n\n{latex}\n{remainder}"
    for name, text in pages.items():
        path = MADE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in MADE.rglob("*"):
        if path.is_file() and path.relative_to(MADE).as_posix() not in pages:
            path.unlink()


class Links(HTMLParser):
    """Addresses that a page fetches, addresses that it links to, and its own anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.leads: list[str] = []
        self.places = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        values = {name: value or "" for name, value in attributes}
        self.places |= {values.get("id", ""), values.get("name", "") if tag == "a" else ""}
        if tag == "a" and "href" in values:
            self.leads.append(values["href"])
        elif tag in FETCHED and FETCHED[tag] in values and values.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(values[FETCHED[tag]])


def faults(built: Path) -> list[str]:
    """Links that lead nowhere, and whatever a page would fetch from another host."""
    pages = {
        path: Links(path.read_text(encoding="utf-8")) for path in built.rglob("*.html") if "_static" not in path.parts
    }
    results = []
    for path, page in pages.items():
        name = path.relative_to(built)
        results += [f"{name}: fetches {address}" for address in page.fetched if urlsplit(address).netloc]
        for address in [*page.leads, *page.fetched]:
            url = urlsplit(address)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.is_file():
                results.append(f"{name}: {address} leads nowhere")
            elif target in pages and unquote(url.fragment) not in pages[target].places:
                results.append(f"{name}: {address} leads to no place in its page")
    for path in built.rglob("*.css"):
        for match in ADDRESS.finditer(path.read_text(encoding="utf-8")):
            results.append(f"{path.relative_to(built)}: fetches {match[1] or match[2]}")
    return results


def build() -> None:
    """Run Sphinx, then check what it wrote.

    Raises:
        SystemExit: a warning of Sphinx, a broken link, or a request to another host.
    """
    generate()
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
    if subprocess.run([*command, str(DOCS), str(BUILT)], cwd=ROOT, check=False).returncode:
        sys.exit("scripts/docs: Sphinx warned; warnings are errors")
    if result := faults(BUILT):
        sys.exit("\n".join([*sorted(set(result)), f"scripts/docs: {len(set(result))} faults"]))
    print(f"{BUILT / 'index.html'}: {len(list(BUILT.rglob('*.html')))} pages")


def main() -> None:
    """Build, after running the pages where that is asked for."""
    if "--outputs" in sys.argv:
        subprocess.run([sys.executable, str(ROOT / "scripts" / "site" / "blocks.py")], check=True)
    if "--clean" in sys.argv:
        shutil.rmtree(BUILT.parent, ignore_errors=True)
    build()
    if "--open" in sys.argv:
        webbrowser.open((BUILT / "index.html").as_uri())


if __name__ == "__main__":
    main()
