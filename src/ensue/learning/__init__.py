"""Estimators that the tasks share."""
