"""How often the intervals of off-policy estimates cover the truth, over made-up worlds.

In each world sessions are of one of four kinds, which say how likely each of 12 items is clicked; clicks of a session
depend on each other, as some sessions click more than others. Propensities are those of a logging policy that prefers
some items; the policy in question prefers others. The truth is a sum over kinds and items.

    python benchmarks/off_policy.py [--worlds 500] [--sessions 400] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from ensue.data.histories import Histories, offsets_of
from ensue.evaluation.off_policy import MIN_EFFECTIVE, PolicyValue, fold_of, item_rewards, policy_value
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

ITEMS = 12
KINDS = 4
ESTIMATORS = ("ips", "snips", "dr")


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of scores, row by row."""
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: np.ndarray = exponentials / exponentials.sum(1, keepdims=True)
    return probabilities


def simulate(seed: int, num_sessions: int) -> tuple[float, float, PolicyValue]:
    """Return the true reward of a policy, that of the logging policy, and the estimates on one log."""
    draws = np.random.default_rng(seed)
    clicked = draws.beta(1, 5, (KINDS, ITEMS)) / 1.5
    logging = softmax(draws.normal(0, 1, (KINDS, ITEMS)))
    policy = softmax(draws.normal(0, 1, (KINDS, ITEMS)) + 4 * clicked)
    truth = float((policy * clicked).sum(1).mean())
    lengths = 1 + draws.poisson(4, num_sessions)
    sessions = np.repeat(np.arange(num_sessions), lengths)
    kinds = draws.integers(KINDS, size=num_sessions)[sessions]
    # The mean of the factors of sessions is 1, so that the truth does not depend on them.
    factors = draws.choice([0.5, 1.0, 1.5], num_sessions)[sessions]
    items = (draws.random(len(kinds))[:, None] > logging[kinds].cumsum(1)).sum(1).clip(max=ITEMS - 1)
    rewards = draws.random(len(kinds)) < factors * clicked[kinds, items]
    log = Histories(
        (items + FIRST).astype(np.int32),
        offsets_of(lengths),
        Vocabulary(map(str, range(ITEMS))),
        weights=rewards.astype(np.float64),
        propensities=logging[kinds, items],
    )
    rewards_of_items = item_rewards(log, ITEMS + FIRST)[fold_of(sessions)][:, FIRST:]
    expected = (policy[kinds] * rewards_of_items).sum(1)
    value = policy_value(policy[kinds, items], expected, log, sessions)
    return truth, float((logging * clicked).sum(1).mean()), value


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    worlds = [simulate(seed, args.sessions) for seed in range(args.worlds)]
    is_warned = np.array([value.is_biased or value.effective < MIN_EFFECTIVE for _, _, value in worlds])
    rows = []
    for name in ESTIMATORS:
        estimates = [getattr(value, name) for _, _, value in worlds]
        errors = np.array([estimate.value - truth for estimate, (truth, _, _) in zip(estimates, worlds, strict=True)])
        covered = np.array(
            [estimate.low <= truth <= estimate.high for estimate, (truth, _, _) in zip(estimates, worlds, strict=True)]
        )
        width = np.mean([estimate.high - estimate.low for estimate in estimates])
        rows.append(
            {
                "estimator": name,
                "covered": round(float(covered.mean()), 4),
                "covered_without_warning": round(float(covered[~is_warned].mean()), 4),
                "mean_error": round(float(errors.mean()), 5),
                "root_mean_square_error": round(float(np.sqrt((errors**2).mean())), 5),
                "mean_width": round(float(width), 5),
            }
        )
    gains = [abs(truth - logged) for truth, logged, _ in worlds]
    result = {
        **provenance(),
        "worlds": args.worlds,
        "sessions": args.sessions,
        "events": round(float(np.mean([1 + 4])) * args.sessions),
        "mean_difference_of_policies": round(float(np.mean(gains)), 5),
        "worlds_with_a_warning": int(is_warned.sum()),
        "rows": rows,
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
