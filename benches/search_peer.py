#!/usr/bin/env python3
"""The searches of `search_bench` with the library MLRsearch: search_peer.py CASE prints the results as JSON.

The device is the one of crates/wiretail-analysis/src/search/simulated.rs, with the same formula and random numbers.
The library's warm-up trial is left out, because the other implementation has none.
"""

import json
import math
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

WORD = (1 << 64) - 1


def mix(word):
    z = (word + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def uniform(seed, rate, number):
    return (mix(mix(mix(seed) ^ rate) ^ number) >> 11) / (1 << 53)


class Device(AbstractMeasurer):
    """Serves packets up to its capacity per second, and loses the excess, and some packets by interference."""

    def __init__(self, case, capacity, seed):
        self.case, self.capacity, self.seed = case, capacity, seed
        self.trials, self.seconds = 0, 0.0

    def measure(self, intended_duration, intended_load):
        self.trials += 1
        self.seconds += intended_duration
        sent = max(int(intended_load * intended_duration), 1)
        served = self.capacity * intended_duration
        if sent > served:
            served *= self.case["overload"]
        lost = math.ceil(max(sent - served, 0.0))
        chance = 1.0 - math.exp(-self.case["bursts"] * intended_duration)
        if uniform(self.seed, int(intended_load), self.trials) < chance:
            lost += self.case["burst"]
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            loss_count=min(lost, sent),
        )


def bound(stat):
    return None if stat is None else float(stat)


def search(case, capacity, seed):
    goals = [
        SearchGoal(
            loss_ratio=ratio,
            exceed_ratio=case["exceed"],
            relative_width=case["width"],
            initial_trial_duration=case["first"],
            final_trial_duration=case["full"],
            duration_sum=case["full"] * case["trials"],
            preceding_targets=2,
            expansion_coefficient=2,
            fail_fast=False,
        )
        for ratio in case["ratios"]
    ]
    config = Config()
    config.goals = goals
    config.min_load, config.max_load = case["lowest"], case["highest"]
    config.warmup_duration = None
    device = Device(case, capacity, seed)
    found = MultipleLossRatioSearch(config=config).search(measurer=device, debug=lambda _: None)
    results = [found[goal] for goal in config.goals]
    return {
        "trials": device.trials,
        "seconds": device.seconds,
        "bounds": [[bound(result.relevant_lower_bound), bound(result.relevant_upper_bound)] for result in results],
    }


def main():
    case = json.loads(sys.argv[1])
    print(json.dumps([search(case, capacity, seed) for seed, capacity in enumerate(case["capacities"], 1)]))


if __name__ == "__main__":
    main()
