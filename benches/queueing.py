#!/usr/bin/env python3
"""Runs the queueing simulation and SimPy interleaved and prints the table; called by benches/queueing."""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from spread import spread

MODELS = ["m-m-1", "interrupted-batches"]
# For similar run times: SimPy takes hundreds of times as long per packet.
TWIN_PACKETS = 5_000_000
SIMPY_PACKETS = 50_000
# Largest difference between the means over all rounds, because both are random simulations.
AGREEMENT = 0.05


def simulate(command, name, packets, seed):
    run = subprocess.run([*command, name, str(packets), str(seed)], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(run.stdout)
    if found["sent"] != packets or found["lost"] != 0:
        sys.exit(f"{command[-1]}: sent {found['sent']} and lost {found['lost']} of {packets} packets; expected all, none")
    return packets / found["seconds"], found["mean_ns"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--twin", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    script = str(Path(__file__).with_name("queueing_simpy.py"))
    commands = {"twin": ([options.twin], TWIN_PACKETS), "simpy": ([options.python, script], SIMPY_PACKETS)}

    print(f"{options.rounds} rounds; medians, with minimum and maximum in brackets; simulated packets per second of one core\n")
    print(f"{'model':<22} {'Wiretail, million':<26} {'SimPy, thousand':<26} ratio within a round")
    for name in MODELS:
        speeds = {who: [] for who in commands}
        means = {who: [] for who in commands}
        for number in range(options.rounds):
            # Reverse the order in every other round.
            for who, (command, packets) in list(commands.items())[:: 1 if number % 2 == 0 else -1]:
                speed, mean_ns = simulate(command, name, packets, number + 1)
                speeds[who].append(speed)
                means[who].append(mean_ns)
        twin, simpy = (statistics.mean(means[who]) for who in commands)
        if abs(twin - simpy) > AGREEMENT * twin:
            sys.exit(f"{name}: mean delay {twin:.0f} ns by Wiretail, {simpy:.0f} ns by SimPy: the models differ")
        ratios = [fast / slow for fast, slow in zip(speeds["twin"], speeds["simpy"])]
        print(
            f"{name:<22} {spread([speed / 1e6 for speed in speeds['twin']], 1):<26} "
            f"{spread([speed / 1e3 for speed in speeds['simpy']], 0):<26} {spread(ratios, 0)}"
            f"   mean delay {twin / 1000:.2f} and {simpy / 1000:.2f} us"
        )


if __name__ == "__main__":
    main()
