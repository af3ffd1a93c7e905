"""The evaluator: a protocol card, counting rows beside every model, 95 % intervals, and one sentence on who wins.

``next_event`` scores rankings, ``classify`` labels, ``suggest`` queries and ``link`` posts with articles; a task names
its own (:class:`~ensue.evaluation.evaluator.Evaluator`).
"""
