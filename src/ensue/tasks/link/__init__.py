"""Task ``link``: which posts discuss this article, and which articles a post is about."""

from ensue.records import Post
from ensue.tasks.base import Task

TASK = Task(
    name="link",
    question="link posts to the articles they discuss",
    record=Post,
    example={"text": "a post"},
    catalogue="ensue.tasks.link.catalogue",
    predictor="ensue.tasks.link.predictor:LinkPredictor",
    evaluator="ensue.evaluation.link:JudgedPosts",
    update="ensue.refresh.trial:update_link",
    forget="ensue.tasks.link.forget:forget_users",
    command="ensue.cli.tasks.link",
    check="ensue.tasks.link.check",
    service="ensue.serve.tasks.link:SERVICE",
    foreign=(
        "metric unknown rank_unknown exclude_seen events time_unit day_first sort session_gap phrases rules "
        "protocol cutoffs min_users prefix steps exclude edges allow items item_columns"
    ),
    kinds=("posts",),
)
