"""Pages for operators: their commands have the verbs and options that there are, their Python runs, bounds are ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ensue.cli import cluster, make_app
from ensue.stream import engine, partition_of
from ensue.stream.brokers import open_source
from ensue.stream.state import StreamSettings
from ensue.tasks.next import sizing, train
from ensue.tasks.next.ensembles import cascade_features
from ensue.tasks.next.settings import SoftmaxSettings
from ensue.training.optimizer import MAX_DECAYED_ROWS

PLACE = Path(__file__).parents[1] / "docs" / "operate"
STREAMS, LARGE, CLUSTER = (
    (PLACE / name).read_text() for name in ("partitioned_streams.md", "large_logs.md", "cluster.md")
)


def test_every_verb_and_option_exists() -> None:
    commands = re.findall(r"(?:^|-m )ensue (\w+) (.*(?:\\\n.*)?)$", STREAMS + LARGE + CLUSTER, re.MULTILINE)
    assert len(commands) >= 12
    for verb, rest in commands:
        told = CliRunner().invoke(make_app(), [verb, "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).output
        for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest):
            assert option in told, f"{verb} {option}"


def test_every_address_is_understood() -> None:
    pytest.importorskip("redis")
    pytest.importorskip("confluent_kafka")
    addresses = re.findall(r'"((?:redis|kafka)://[^"]*)"', STREAMS)
    assert len(addresses) == 5
    for address in addresses:
        source = open_source(address.replace("&config=client.properties", ""), print)
        assert source.name in ("redis:clicks-*", "kafka:clicks")
        source.close()


def test_the_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", STREAMS, re.DOTALL)
    found: dict[str, object] = {}
    exec(code, found)
    assert found["key"] == f"clicks-{partition_of('session 17', 4)}"


def test_every_cluster_is_understood() -> None:
    addresses = re.findall(r"--cluster '?(ray[^\s'`]*)", CLUSTER)
    assert [cluster._parsed(address) for address in addresses if "…" not in address] == [
        ("", 2),
        ("10.0.0.1:6379", 8),
        ("", 2),
        ("", 2),
    ]
    assert f"{cluster.STORE // 2**20} MiB" in CLUSTER


def test_bounds_are_those_of_the_code() -> None:
    assert sizing.LARGE == cascade_features.MAX_DENSE_USERS == 50_000 and MAX_DECAYED_ROWS == 100_000
    assert SoftmaxSettings().negatives == 2048
    assert (cascade_features.LONGEST, cascade_features.FREQUENT) == (500, 200)
    assert (train.EVALUATION_SAMPLE, train.CHECKED_SCORES, train.LEAST_CHECKED) == (30_000, 3 * 10**9, 1_000)
    assert (StreamSettings().journal, engine.HEAVY, engine.GROWN) == (2**28, 2**27, 1.0)
