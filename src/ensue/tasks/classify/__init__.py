"""Task ``classify``: which label fits this text, or this pair of texts."""

from ensue.records import Text
from ensue.tasks.base import Task

TASK = Task(
    name="classify",
    question="label a text, or a pair of texts",
    record=Text,
    example={"texts": ["a text"]},
    catalogue="ensue.tasks.classify.catalogue",
    predictor="ensue.tasks.classify.predictor:ClassifyPredictor",
    evaluator="ensue.evaluation.classify:LabelledTexts",
    update="ensue.refresh.trial:update_classify",
    forget="ensue.tasks.classify.forget:forget_users",
    command="ensue.cli.tasks.classify",
    check="ensue.tasks.classify.check",
    service="ensue.serve.tasks.classify:SERVICE",
    foreign=(
        "unknown rank_unknown exclude_seen events time_unit day_first sort session_gap protocol cutoffs rules "
        "min_users prefix steps exclude edges allow articles queries qrels items item_columns"
    ),
    kinds=("texts",),
)
