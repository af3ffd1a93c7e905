"""Settings by name: ``key=value`` texts become fields of the frozen settings of a model."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from functools import cache
from inspect import get_annotations, getsource
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from textwrap import dedent
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from ensue.errors import SettingError
from ensue.lazy import require_extra
from ensue.lines import one_line

LARGEST = 2**31 - 1
"""The largest whole number that any setting takes."""
DEEPEST = 64
"""The largest number of blocks, layers or cycles that a network is made of."""
# A name or owner/name: no scheme, no path.
_INSTALLED = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
"""``name`` or ``owner/name``, as models are called in the cache of ``sentence-transformers``."""
_ELSEWHERE = re.compile(r"[a-zA-Z][\w+.-]*:|//|\\|/net/|~|(.*/)?\.\.(/|$)")
"""Begins like an address, like a path on another machine, or leads out of where it begins."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Constraint on the value of a setting, as metadata of its annotation.

    Attributes:
        holds: whether a value does.
        refusal: what is said of one that does not, with its ``{name}`` and ``{value}``.
    """

    holds: Callable[[Any], bool]
    refusal: str


def must_be(wanted: str, holds: Callable[[Any], bool]) -> Rule:
    """Return a rule for numbers; ``wanted`` follows the words "it must be"."""
    return Rule(holds, f"{{name}} is {{value}}; it must be {wanted}")


def one_of(*choices: str) -> Rule:
    """Return a rule for names."""
    return Rule(choices.__contains__, f"{{name}} is {{value!r}}; choose from {', '.join(choices)}")


def variant_of(*choices: str) -> Rule:
    """Return a rule for names of a part of a network."""
    return Rule(choices.__contains__, f"{{name}} {{value!r}} is not known; choose from {', '.join(choices)}")


Size = Annotated[int, must_be("at least 1", lambda value: value >= 1)]
Count = Annotated[int, must_be("0 or more", lambda value: value >= 0)]
Positive = Annotated[float, must_be("above 0", lambda value: value > 0)]
NonNegative = Annotated[float, must_be("0 or more", lambda value: value >= 0)]
Share = Annotated[float, must_be("at least 0 and below 1", lambda value: 0 <= value < 1)]


class Settings:
    """A dataclass of settings that keep to the rules of their annotations, however it is made.

    ``None`` is right where the annotation allows it. What relates two fields is checked in ``__post_init__``, after
    ``super().__post_init__()``.
    """

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            SettingError: a value that breaks a rule.
        """
        for name, rule in _rules(type(self)):  # type: ignore[arg-type]  # mypy takes classes for unhashable
            if (value := getattr(self, name)) is not None and not rule.holds(value):
                raise SettingError(rule.refusal.format(name=name, value=value))


@cache
def _rules(kind: type) -> list[tuple[str, Rule]]:
    """Return (field, rule) for each rule of the fields of a dataclass."""
    # Later classes win, as in inheritance; `get_annotations` returns those of one class alone.
    hints = {
        name: hint for base in reversed(kind.__mro__) for name, hint in get_annotations(base, eval_str=True).items()
    }
    return [(name, rule) for name, hint in hints.items() for rule in _of(hint)]


def _of(hint: object) -> list[Rule]:
    """Return the rules in an annotation: of its metadata, of the members of a union, and the choices of a literal."""
    if get_origin(hint) is Literal:
        return [one_of(*get_args(hint))]
    if get_origin(hint) in (Union, UnionType):
        return [rule for member in get_args(hint) for rule in _of(member)]
    return [rule for rule in getattr(hint, "__metadata__", ()) if isinstance(rule, Rule)]


def require_heads(dim: int, heads: int) -> None:
    """Check that the width is a multiple of the heads.

    Raises:
        SettingError: it is not.
    """
    if dim % heads:
        raise SettingError(f"dim {dim} is not a multiple of heads {heads}")


def changed(changes: Mapping[str, object], *defaults: Any) -> list[Any]:
    """Return each of the frozen settings with the changes that name its fields; ``None`` stays ``None``.

    Args:
        changes: field name to value; a text is read as the field's type (``"0.2"``, ``"false"``).
        defaults: dataclass instances, or ``None``.

    Raises:
        SettingError: a name that none of them has, or a value that is not of the field's type.
    """
    known_names = {field.name for settings in defaults if settings is not None for field in fields(settings)}
    require_known(changes, known_names)
    return [None if settings is None else _changed(changes, settings) for settings in defaults]


def _changed(changes: Mapping[str, object], settings: Any) -> Any:
    own_changes = {field.name: changes[field.name] for field in fields(settings) if field.name in changes}
    if not own_changes:
        return settings
    try:
        # Pydantic reads texts of the command line as the types of the fields.
        new_settings = TypeAdapter(type(settings)).validate_python({**asdict(settings), **own_changes})
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        problem = first["msg"].partition(", unable")[0]
        raise SettingError(f"setting {location}: {problem} (got {first['input']!r})") from error
    for name in own_changes:
        if isinstance(value := getattr(new_settings, name), float) and not math.isfinite(value):
            raise SettingError(f"setting {name}: must be a finite number (got {own_changes[name]!r})")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise SettingError(f"setting {name}: must be at most {LARGEST:,} (got {own_changes[name]!r})")
    return new_settings


def require_known(names: Iterable[str], known: Collection[str]) -> None:
    """Check that each name of a setting is known.

    Raises:
        SettingError: one is not.
    """
    for name in names:
        if name not in known:
            choices = ", ".join(sorted(known))
            raise SettingError(f"setting {name!r} is not known; {near(name, known)}choose from {choices}")


def near(name: str, known: Iterable[str]) -> str:
    """Return a question such as ``did you mean 'dropout'? `` if an unknown name resembles a known one, else ""."""
    choices = list(known)
    # Fields are spelled with underscores and models with hyphens; .75 is similar enough for two swapped letters.
    for spelling in (str(name).replace("-", "_"), str(name)):  # a folder may name a number where a model should stand
        if matches := get_close_matches(spelling, choices, 1, 0.75):
            return f"did you mean {matches[0]!r}? "
    return ""


def require_file(name: str, path: str | Path | None) -> None:
    """Check that a file that a setting names exists, before anything long begins.

    Raises:
        SettingError: it is not.
    """
    if path is not None and not Path(path).is_file():
        raise SettingError(f"{name} is {str(path)!r}; no such file")


def require_encoder(name: str) -> None:
    """Check that a sentence encoder is a folder of this machine or the name of an installed one, and can be read.

    Raises:
        SettingError: it is neither, or the package that reads it is missing.
    """
    if _ELSEWHERE.match(name) or not name.strip() or not name.isprintable():
        raise SettingError(f"encoder is {name!r}; give the name of an installed encoder, or a local folder")
    if not _INSTALLED.fullmatch(name) and not Path(name).is_dir():
        raise SettingError(f"encoder is {name!r}; there is no such folder")
    require_extra("sentence_transformers", f"encoder {name!r}", "encoder")


def require_seed(seed: object) -> int:
    """Return a seed, which is a whole number, 0 or more, of less than 64 bits.

    Raises:
        SettingError: it is not.
    """
    number = require_integer("seed", seed)
    if not 0 <= number < 2**63:
        raise SettingError(f"seed is {number}; it must be a whole number, 0 or more, below 2^63")
    return number


def require_k(k: object, most: int | None = None) -> None:
    """Refuse a number of choices that is not a whole number from 1 to ``most``.

    Raises:
        SettingError: ``k`` is of another type, below 1, or above ``most``.
    """
    number = require_integer("k", k)
    if number < 1:
        raise SettingError(f"k is {k}; give at least 1")
    if most is not None and number > most:
        raise SettingError(f"k is {k}; ask for at most {most:,} choices")


def require_integer(name: str, value: object) -> int:
    """Return a whole number of any type.

    Raises:
        SettingError: it is none.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise SettingError(f"{name} is {one_line(repr(value), 60)}; it must be a whole number")
    return int(value)


def meanings(settings: object) -> dict[str, str]:
    """Return the meaning of each field of a dataclass: the text below it in the source, on one line."""
    return {name: text for kind in reversed(type(settings).__mro__[:-1]) for name, text in _own_meanings(kind).items()}


@cache
def _own_meanings(kind: type) -> dict[str, str]:
    """Return the meanings of the fields that a class declares itself, parsed once: it takes milliseconds."""
    texts = {}
    # A field and the text below it are two statements in a row.
    for field, statement in pairwise(cast(ast.ClassDef, ast.parse(dedent(getsource(kind))).body[0]).body):
        match field, statement:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.replace("``", "`").split())
    return texts


def parse(pairs: list[str]) -> dict[str, str]:
    """Return settings such as ``["window=50", "dropout=0.3"]`` as a dictionary.

    Raises:
        SettingError: a text without ``=``.
    """
    for pair in pairs:
        if "=" not in pair:
            raise SettingError(f"{pair!r} is not of the form key=value")
    return {key.strip(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}
