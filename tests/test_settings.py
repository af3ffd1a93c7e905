"""Settings by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import SettingError
from ensue.schedule import Schedule
from ensue.settings import Settings, Size, changed, must_be, one_of, parse
from ensue.tasks.next.settings import HiDANSettings


@dataclass(frozen=True, kw_only=True)
class Small:
    count: int = 3
    rate: float = 0.5
    on: bool = True
    name: str = "x"

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SettingError(f"count is {self.count}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Other:
    epochs: int = 7


def test_each_takes_what_it_knows() -> None:
    small, nothing, other = changed({"count": "5", "epochs": 9, "on": "false"}, Small(name="y"), None, Other())
    assert small == Small(count=5, on=False, name="y")
    assert nothing is None and other == Other(epochs=9)
    assert [type(value) for value in asdict(small).values()] == [int, float, bool, str]


def test_no_changes_are_no_changes() -> None:
    small = Small(count=8)
    assert changed({}, small) == [small]


@given(st.integers(1, 2**31 - 1), st.floats(-1e9, 1e9), st.booleans(), st.text(max_size=9))
def test_texts_and_values_mean_the_same(count: int, rate: float, on: bool, name: str) -> None:
    wanted = Small(count=count, rate=rate, on=on, name=name)
    assert changed(asdict(wanted), Small()) == [wanted]
    assert changed({field: str(value) for field, value in asdict(wanted).items()}, Small()) == [wanted]


INTEGER = "Input should be a valid integer"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cuont": 1},
            "setting 'cuont' is not known; did you mean 'count'? choose from count, epochs, name, on, rate",
        ),
        ({"count": "many"}, f"setting count: {INTEGER} (got 'many')"),
        ({"count": "1.5"}, f"setting count: {INTEGER} (got '1.5')"),
        ({"count": ""}, f"setting count: {INTEGER} (got '')"),
        (
            {"rate": "fast"},
            "setting rate: Input should be a valid number (got 'fast')",
        ),
        ({"on": "perhaps"}, "setting on: Input should be a valid boolean (got 'perhaps')"),
        ({"count": "2147483648"}, "setting count: must be at most 2,147,483,647 (got '2147483648')"),
        ({"count": 10**30}, f"setting count: must be at most 2,147,483,647 (got {10**30})"),
        ({"count": "0"}, "count is 0; it must be at least 1"),
    ],
)
def test_refused_changes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        changed(changes, Small(), Other())
    assert str(error.value) == message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("name", "settings"), [("max_hours", HiDANSettings()), ("dropout", HiDANSettings()), ("learning_rate", Schedule())]
)
def test_no_setting_is_infinite(name: str, settings: Any, value: str) -> None:
    with pytest.raises(SettingError) as error:
        changed({name: value}, settings)
    assert "\n" not in str(error.value)
    if value == "inf" and name != "dropout":
        assert str(error.value) == f"setting {name}: must be a finite number (got 'inf')"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({name: 0}, f"{name} is 0; it must be at least 1") for name in ("epochs", "batch_size", "patience")),
        ({"check_every": -2}, "check_every is -2; it must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; it must be above 0"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0; it must be 0 or more"),
    ],
)
def test_refused_schedules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        Schedule(**changes)
    assert str(error.value) == message


def test_pairs_by_hand() -> None:
    assert parse(["window=50", " dropout = 0.3 ", "name=a=b", "empty="]) == {
        "window": "50",
        "dropout": "0.3",
        "name": "a=b",
        "empty": "",
    }
    assert parse([]) == {}


def test_a_pair_without_a_sign_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        parse(["window=50", "window"])
    assert str(error.value) == "'window' is not of the form key=value"


LIMIT = 4


@dataclass(frozen=True, kw_only=True)
class Ruled(Settings):
    most: Size | None = None
    depth: Annotated[Size, must_be(f"at most {LIMIT}", lambda value: value <= LIMIT)] = 1
    kind: Annotated[str, one_of("a", "b")] = "a"
    way: Literal["up", "down"] = "up"


@dataclass(frozen=True, kw_only=True)
class More(Ruled):
    depth: Size = 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"most": 0}, "most is 0; it must be at least 1"),
        ({"depth": 0}, "depth is 0; it must be at least 1"),  # every rule of an annotation
        ({"depth": 5}, "depth is 5; it must be at most 4"),
        ({"kind": "c"}, "kind is 'c'; choose from a, b"),
        ({"way": "left"}, "way is 'left'; choose from up, down"),
    ],
)
def test_annotations_rule_what_is_made_in_python(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        Ruled(**changes)
    assert str(error.value) == message


def test_rules_are_inherited_and_replaced() -> None:
    assert (More().depth, More().most, More(most=2).most) == (5, None, 2)  # its own rule has no upper end
    with pytest.raises(SettingError, match="kind is 'c'; choose from a, b"):
        changed({"kind": "c"}, More())
