"""The house drawn: its floors from the ground up, each room as wide as its lines, from the imports of the source."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from html import escape

from scripts.house import SOURCE, imports, module_of

FLOORS_FILE = SOURCE.parents[1] / "tests" / "test_imports.py"
WIDTH, ROW, LEFT = 760, 30, 120


@cache
def floors() -> tuple[str, ...]:
    """The rooms from the ground up, as ``tests/test_imports.py`` holds them."""
    for node in ast.parse(FLOORS_FILE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS":
            return tuple(str(ast.literal_eval(item)) for item in getattr(node.value, "elts", []))
    raise ValueError(f"{FLOORS_FILE}: FLOORS is missing")


@cache
def measured() -> tuple[Counter[str], dict[str, set[str]]]:
    """Lines of each room, and the rooms that it imports."""
    texts = {module_of(path): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    numbers = {name: number for number, name in enumerate(texts)}
    lines: Counter[str] = Counter()
    used: dict[str, set[str]] = {}
    for name, text in texts.items():
        room = room_of(name)
        lines[room] += text.count("\n")
        for found, _ in imports(ast.parse(text), numbers):
            if room_of(found) != room:
                used.setdefault(room, set()).add(room_of(found))
    return lines, used


def room_of(module: str) -> str:
    """``data`` of ``ensue.data.table``, ``tasks.base`` of its own; ``ensue`` of the package itself."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((name for name in names if name in floors()), "ensue")


def draw() -> str:
    """An SVG: a bar a room, with its lines, and the rooms that it imports."""
    lines, used = measured()
    rooms = [room for room in floors() if room in lines][::-1]
    most = max(lines[room] for room in rooms)
    height = ROW * len(rooms) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="The rooms of ensue, the ground floor lowest">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for place, room in enumerate(rooms):
        top = 8 + place * ROW
        width = max(3, 220 * lines[room] / most)
        below = ", ".join(sorted(used.get(room, ()), key=rooms.index if used.get(room, set()) <= set(rooms) else None))
        if len(below) > 62:
            below = f"{below[:60]} …"
        parts += [
            f'<text x="{LEFT - 10}" y="{top + 16}" text-anchor="end" fill="#1a1a1a">{escape(room)}</text>',
            f'<rect x="{LEFT}" y="{top + 2}" width="{width:.0f}" height="20" fill="#2f6f9f"/>',
            f'<text x="{LEFT + width + 6:.0f}" y="{top + 16}" fill="#1a1a1a">{lines[room]:,}</text>',
            f'<text x="{LEFT + 290}" y="{top + 16}" font-size="11" fill="#444444">{escape(below)}</text>',
        ]
    parts.append(
        f'<text x="{LEFT}" y="{height - 10}" fill="#444444">Bars: lines of code. At the right: the rooms that it '
        "imports, all of them below it.</text></svg>"
    )
    return "\n".join(parts) + "\n"
