"""Task ``suggest``: which query will be typed next."""

from ensue.records import History
from ensue.tasks.base import Task

TASK = Task(
    name="suggest",
    question="suggest the next query",
    record=History,
    example={"values": ["a", "b"]},
    catalogue="ensue.tasks.suggest.catalogue",
    predictor="ensue.tasks.suggest.predictor:SuggestPredictor",
    evaluator="ensue.evaluation.suggest:NextQueries",
    update="ensue.refresh.trial:update_suggest",
    forget="ensue.tasks.suggest.forget:forget_users",
    command="ensue.cli.tasks.suggest",
    check="ensue.tasks.suggest.check",
    service="ensue.serve.tasks.suggest:SERVICE",
    foreign=(
        "metric unknown rank_unknown exclude_seen events sort phrases cutoffs steps exclude allow edges "
        "articles queries qrels items item_columns"
    ),
    kinds=("queries",),
)
