"""The significance test of the package: two-sided, paired, on differences whose dependent units are kept together.

A difference is significant where its p-value is below ``LEVEL``, everywhere. Metrics of test data are compared by the
resampled differences of whole units (sessions, groups of texts, articles with their posts); model selection on held-out
data compares the gains per example by their standard error, with the gains of one unit taken together.
"""

from __future__ import annotations

from functools import cache
from math import erfc, exp, lgamma, log, log1p, pi, sqrt

import numpy as np
import numpy.typing as npt

LEVEL = 0.05
"""Differences with a p-value below this are significant."""
Floats = npt.NDArray[np.float64]


def p_value_text(p_value: float) -> str:
    """Return a p-value for people: ``<0.001``, or three digits."""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def is_significant(p_value: float) -> bool:
    """Return whether a two-sided p-value is below ``LEVEL``."""
    return p_value < LEVEL


def resampled_p_value(differences: Floats, num_units: int | None = None) -> float:
    """Return the two-sided p-value of (resamples,) differences: how often resampling turns their sign or makes them 0.

    Args:
        differences: of two models on the same resamples.
        num_units: number of units that are resampled. Under the null hypothesis n differences all have one sign with
            probability 2^(1 - n), so that the p-value is at least that. [default: not considered]
    """
    # One is added to both counts, so that a thousand resamples never give a p-value of 0.
    turned = 1 + min((differences <= 0).sum(), (differences >= 0).sum())
    return float(min(1.0, max(2 * turned / (1 + len(differences)), _smallest(num_units))))


def normal_p_value(difference: float, standard_error: float, num_units: int | None = None) -> float:
    """Return the two-sided p-value of a normally distributed difference.

    A thousand resamples cannot give a p-value below .002, which no correction for a hundred pairs survives.

    Args:
        difference: of two models.
        standard_error: of the difference.
        num_units: as of :func:`resampled_p_value`.
    """
    if not difference:
        return 1.0
    p_value = erfc(abs(difference) / standard_error / sqrt(2)) if standard_error else 0.0
    return max(p_value, _smallest(num_units))


def significantly_positive(gains: Floats, clusters: npt.NDArray[np.int64] | None = None) -> bool:
    """Return whether the mean of the gains is positive and significantly different from 0.

    Args:
        gains: (examples,) differences of two models on the same examples.
        clusters: (examples,) number of the unit of each example; gains of one unit depend on each other. [default:
            each example is a unit]
    """
    if len(gains) < 2 or gains.mean() <= 0:
        return False
    num_units = len(gains) if clusters is None else len(np.unique(clusters))
    return is_significant(normal_p_value(float(gains.mean()), standard_error(gains, clusters), num_units))


def exceeds_standard_error(gains: Floats, clusters: npt.NDArray[np.int64] | None = None, errors: float = 1.0) -> bool:
    """Return whether the mean of the gains is above 0 by more than one standard error.

    This is the one-standard-error rule of model selection (Breiman et al. 1984), not a test of significance.

    Args:
        gains: (examples,).
        clusters: as of :func:`significantly_positive`.
        errors: number of standard errors.
    """
    return len(gains) > 1 and bool(gains.mean() > errors * standard_error(gains, clusters))


def standard_error(gains: Floats, clusters: npt.NDArray[np.int64] | None = None) -> float:
    """Return the standard error of the mean of the gains, those of one cluster taken together.

    It is infinite where there is one cluster.

    Args:
        gains: (examples,).
        clusters: as of :func:`significantly_positive`.
    """
    numbers = np.unique(np.arange(len(gains)) if clusters is None else clusters, return_inverse=True)[1]
    # The variance of a sum over clusters: squared sums of the deviations of each, with n / (n - 1) for small samples.
    sums = np.bincount(numbers, gains - gains.mean())
    if len(sums) < 2:
        return np.inf
    return float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(gains))


def chi_square_p_value(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-square variable of a whole number of degrees of freedom exceeds a statistic.

    By the recurrence of the incomplete gamma function (Abramowitz & Stegun 26.4.4 and 26.4.5).
    """
    half = statistic / 2
    if not half:
        return 1.0
    is_odd = degrees % 2
    p_value = erfc(sqrt(half)) if is_odd else 0.0
    # Terms e^-h h^s / Gamma(s + 1), s = 1/2, 3/2, ... or 0, 1, ..., each from the one before.
    order = is_odd / 2
    term = exp(-half) * (2 * sqrt(half / pi) if is_odd else 1.0)
    for _ in range((degrees - is_odd) // 2):
        p_value += term
        order += 1
        term *= half / order
    return p_value


def beta_probability(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), the distribution of a beta variable.

    By its continued fraction (DiDonato & Morris 1992, Eq. 9), with the modified algorithm of Lentz.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges below the mean alone; above it, that of 1 - x does.
    if x > a / (a + b):
        return 1 - beta_probability(1 - x, b, a)
    factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    tiny = 1e-300
    numerators = 1.0
    denominators = 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = denominators
    step = 1
    while True:
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        previous = fraction
        for coefficient in (even, odd):
            denominators = 1 / ((1 + coefficient * denominators) or tiny)
            numerators = (1 + coefficient / numerators) or tiny
            fraction *= numerators * denominators
        if abs(fraction - previous) <= 1e-15 * abs(fraction) or step > 100_000:
            return factor * fraction
        step += 1


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the x of I_x(a, b) = ``probability``, by bisection until no number lies between both bounds."""
    low = 0.0
    high = 1.0
    while low < (middle := (low + high) / 2) < high:
        if beta_probability(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return middle


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return the t that Student's variable exceeds with ``1 - probability``, which is at least 0.5."""
    # t^2 / (degrees + t^2) is a beta variable, of 1/2 and half the degrees of freedom.
    share = beta_quantile(2 * probability - 1, 0.5, degrees / 2)
    return sqrt(degrees * share / (1 - share))


def _smallest(num_units: int | None) -> float:
    return 0.0 if num_units is None else 2.0 ** (1 - num_units)
