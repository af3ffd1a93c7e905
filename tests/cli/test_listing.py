"""``ensue settings`` and the help of a command for one task, made from the settings themselves."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from ensue.cli.tasks import suggest
from ensue.registry import names_of, settings_of
from ensue.schedule import Schedule
from ensue.tasks import TASKS
from ensue.tasks.next.settings import HiDANSettings, SharedSettings
from tests.cli.conftest import Ensue


@pytest.mark.parametrize("task", TASKS)
def test_every_setting_of_every_model_has_a_meaning(task: str) -> None:
    for model in names_of(task):
        rows = settings_of(task, model)
        assert [row.name for row in rows if not row.meaning.endswith((".", ":", "]"))] == [], model
        assert len({row.name for row in rows}) == len(rows)


def test_defaults_are_those_of_the_model(ensue: Ensue) -> None:
    ran = ensue("settings", "hidan-nua", "--json")
    found = {row["name"]: row["default"] for row in json.loads(ran.out)}
    assert found.keys() == {field.name for kind in (HiDANSettings, Schedule, SharedSettings) for field in fields(kind)}
    assert (found["user_attention"], HiDANSettings().user_attention) == (False, True)
    assert (found["batch_size"], found["monitor"]) == (16, "mrr")  # its own schedule, not the common one


def test_best_lists_what_it_chooses_from(ensue: Ensue) -> None:
    found = {
        row["name"]: row["default"] for row in json.loads(ensue("settings", "best", "--task", "suggest", "--json").out)
    }
    assert (found["copy"], found["reads"], found["retrieved"]) == (True, "all", 50)
    assert {"negatives", "table_dim"} <= {row.name for row in settings_of("next", "best")}  # of core, and of hidan


def test_a_name_that_several_tasks_have_or_none(ensue: Ensue) -> None:
    ran = ensue("settings", "tfidf")
    assert (ran.code, ran.err) == (2, "ensue: tfidf is a model of classify and link; choose with --task classify\n")
    assert ensue("settings", "tfidf", "--task", "link").code == 0
    ran = ensue("settings", "gpt")
    assert (ran.code, ran.err) == (2, "ensue: model 'gpt' is not known; `ensue models` lists them\n")


@pytest.mark.parametrize("words", ["fit link --help", "fit --help link"])
def test_the_help_of_a_task_shows_what_concerns_it(ensue: Ensue, words: str) -> None:
    ran = ensue(*words.split())
    assert ran.code == 0
    assert "--articles" in ran.out and "--encoding" in ran.out
    assert not any(foreign in ran.out for foreign in ("--phrases", "--min-users", "--rules"))
    assert "Danovitch, ITCSE 2020" in ran.out and "posts stored as word ids" in " ".join(ran.out.split()).lower()
    whole = ensue("fit", "--help").out  # which is of all tasks, before and after
    assert "--phrases" in whole and "Danovitch" not in whole


def test_rules_by_name() -> None:
    from ensue.cli.options import Reading
    from ensue.data.queries.rules import PAPER_RULES, QueryRules

    assert suggest._rules(Reading(rules="paper")) == PAPER_RULES
    assert suggest._rules(Reading(rules="max_queries=5,repeats=true", session_gap=10)) == QueryRules(
        max_queries=5, repeats=True, gap=10
    )
