"""Task ``next``: which id comes next in a timed sequence."""

from ensue.records import History
from ensue.tasks.base import Task

TASK = Task(
    name="next",
    question="predict the next item or user of a session",
    record=History,
    example={"values": ["a", "b"]},
    catalogue="ensue.tasks.next.catalogue",
    predictor="ensue.tasks.next.predictor:NextPredictor",
    evaluator="ensue.evaluation.next_event:SessionTargets",
    update="ensue.refresh.trial:update_next",
    forget="ensue.tasks.next.forget:forget_users",
    command="ensue.cli.tasks.next_event",
    check="ensue.tasks.next.check",
    service="ensue.serve.tasks.next_event:SERVICE",
    foreign="metric phrases rules prefix articles queries qrels",
    kinds=("sequences",),
    streamed=True,
)
