#!/usr/bin/env python3
"""Runs all searches and prints the table; called by benches/search."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from spread import spread

COMMON = {"lowest": 1_000, "highest": 100_000, "width": 0.005, "full": 10.0, "first": 1.0, "verify": 1, "burst": 20}
PLAIN = {"trials": 1, "exceed": 0.0, "bursts": 0.0, "overload": 1.0}
# Half of two trials may exceed the goal, as the RFC defines for the goal of ETSI TST 009.
DISTURBED = {**PLAIN, "trials": 2, "exceed": 0.5, "bursts": 0.02}
CASES = {
    "NDR": {**PLAIN, "ratios": [0.0]},
    "NDR and PDR": {**PLAIN, "ratios": [0.0, 0.005]},
    "NDR, 30 % less in an overload": {**PLAIN, "ratios": [0.0], "overload": 0.7},
    "NDR, disturbed": {**DISTURBED, "ratios": [0.0]},
    "NDR and PDR, disturbed": {**DISTURBED, "ratios": [0.0, 0.005]},
}
METHODS = ["linear", "binary", "mlrsearch"]
# A trial sends whole packets at whole rates.
SLACK_PPS = 1.0


def run(command, case):
    return json.loads(subprocess.run([*command, json.dumps(case)], stdout=subprocess.PIPE, text=True, check=True).stdout)


def highest(case, capacity, ratio):
    return max(capacity, capacity * case["overload"] / (1.0 - ratio))


def right(case, capacity, found):
    """Returns whether the bounds of all goals are correct and as close as requested (the linear search has its own width)."""
    for ratio, (lower, upper) in zip(case["ratios"], found["bounds"]):
        planted = highest(case, capacity, ratio)
        if lower is None or lower > planted + SLACK_PPS:
            return False
        if upper is None:
            if planted + SLACK_PPS < case["highest"]:
                return False
        elif upper + SLACK_PPS < planted:
            return False
        elif case.get("method") != "linear" and upper - lower > case["width"] * upper + SLACK_PPS:
            return False
    return True


def overlap(ours, theirs):
    """Returns whether all intervals of one result overlap with those of the other."""
    for (low, high), (lower, upper) in zip(ours["bounds"], theirs["bounds"]):
        ends = [high or 1e18, upper or 1e18]
        if low is None or lower is None or max(low, lower) > min(ends) + SLACK_PPS:
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--search", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--devices", type=int, default=60)
    options = parser.parse_args()
    peer = [options.python, str(Path(__file__).with_name("search_peer.py"))]
    capacities = [2_000.0 + 97_777.7 * (n + 0.5) / options.devices for n in range(options.devices)]

    print(f"{options.devices} devices of each kind; medians, with minimum and maximum in brackets\n")
    print(f"{'sought':<30} {'method':<18} {'sending, s':<26} {'trials':<20} {'right':<10} time relative to the library")
    for name, settings in CASES.items():
        case = {**COMMON, **settings, "capacities": capacities}
        found = {method: run([options.search], {**case, "method": method}) for method in METHODS}
        found["library MLRsearch"] = theirs = run(peer, case)
        for method, searches in found.items():
            judged = [right({**case, "method": method}, *pair) for pair in zip(capacities, searches)]
            if settings["bursts"] == 0.0 and not all(judged):
                at = judged.index(False)
                sys.exit(f"{name}, {method}: {searches[at]}, but the capacity is {capacities[at]}")
            ratios = [ours["seconds"] / its["seconds"] for ours, its in zip(searches, theirs)]
            print(
                f"{name:<30} {method:<18} {spread([one['seconds'] for one in searches]):<26} "
                f"{spread([one['trials'] for one in searches]):<20} {sum(judged) / len(judged):<10.0%} {spread(ratios, 2)}"
            )
        agreed = sum(overlap(*pair) for pair in zip(found["mlrsearch"], theirs))
        print(f"{name:<30} intervals of mlrsearch and the library overlap: {agreed} of {len(theirs)}")


if __name__ == "__main__":
    main()
