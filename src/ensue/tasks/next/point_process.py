"""Delays of a point process whose rate grows or falls exponentially, in closed form.

d hours after an event the rate is exp(a + w d) events an hour (Du et al., KDD 2016); see
:mod:`ensue.tasks.next.models.rmtpp`.
"""

from __future__ import annotations

import numpy as np

from ensue.metrics import Floats

HOUR = 3600.0
"""Seconds of an hour."""
SMALL = 1e-2
"""Below this a quotient that is 0 / 0 at 0 is taken from its series; the first term left out is below 1e-11."""


def delay(log_rate: Floats, trend: Floats, share: float) -> Floats:
    """Return the hours within which the next event comes in this share of the cases in which one comes.

    F(d) = share F(oo) gives H(d) = -log(1 - share F(oo)) = m e^a, and d = log(1 + w m) / w.

    Args:
        log_rate: (…) a, the logarithm of the events an hour right after an event.
        trend: (…) w, by which that logarithm grows an hour.
        share: in (0, 1); 0.5 is the median.
    """
    # Rates beyond the range of floats are infinite or 0, and so are their delays.
    with np.errstate(all="ignore"):
        # The probability that any event follows: below 1 if the rate falls.
        falling = np.minimum(trend, -np.finfo(np.float64).tiny)
        ever = np.where(trend < 0, -np.expm1(np.exp(log_rate) / falling), 1.0)
        flat = -np.log1p(-share * ever) * np.exp(-log_rate)  # m: the delay if the rate stayed as it is
        grown = trend * flat
        small = np.abs(grown) < SMALL
        # Taylor series of log(1 + x) / x near 0.
        series = 1 - grown * (1 / 2 - grown * (1 / 3 - grown * (1 / 4 - grown / 5)))
        exact = np.log1p(grown) / np.where(small, 1.0, grown)
        hours: Floats = flat * np.where(small, series, exact)
    return hours
