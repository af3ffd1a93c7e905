"""Evaluation: metrics of each example in; tables with baselines, 95 % intervals, paired tests and a card out.

A task names a class of its examples (:class:`~ensue.evaluation.examples.Examples`): ``next_event``, ``classify``,
``suggest`` and ``link``. ``comparison`` scores all models on them, ``bootstrap`` resamples and tests,
``result`` is what comes out. ``leaks`` tests whether a model reads other rows.
"""
