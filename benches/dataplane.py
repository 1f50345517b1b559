#!/usr/bin/env python3
"""Measures generators and forwarders interleaved and prints two tables; called by benches/dataplane."""

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import forwarders
import generators
from generators import Generators, has_xdp
from measure import progress, ratios
from testbed import Bed, Failure, Spoiled, stay_on

RATES_KPPS = (10, 100, 400)
FORWARDED_PPS = 100_000
SHARES = (("p50", 500), ("p99", 990), ("p99.9", 999))
# In longer bursts, the scheduler's fair server may stop a real-time thread.
BURST_SECONDS_MAX = 0.7
# A busy machine loses packets before they reach the measured program.
TRIES = 4
LINE = "{:<38} {:<30} {:>9} {:>22} {:>8} {:>16}"


@dataclass
class Measure:
    """A quantity that is measured for all contenders, with one value per round."""

    name: str
    unit: str
    more_is_better: bool
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, contender: str, value: float) -> None:
        self.values.setdefault(contender, []).append(value)


def nearest_rank(ordered: list, thousandths: int):
    return ordered[max(0, -(-thousandths * len(ordered) // 1000) - 1)]


def between(values: list[float], digits: int) -> str:
    ordered = sorted(values)
    return f"{nearest_rank(ordered, 50):.{digits}f} .. {nearest_rank(ordered, 950):.{digits}f}"


def show(title: str, measures: list[Measure], base: str) -> None:
    print(f"\n{title}")
    print(LINE.format("", "", "median", "p5 .. p95", "ratio", "p5 .. p95").rstrip())
    for measure in measures:
        better = "more is better" if measure.more_is_better else "less is better"
        label = f"{measure.name}, {measure.unit}"
        for number, (contender, values) in enumerate(measure.values.items()):
            ratio = ratios(values, measure.values[base])
            texts = [f"{statistics.median(values):.0f}", between(values, 0),
                     f"{statistics.median(ratio):.2f}", between(ratio, 2)]
            first = label if number == 0 else f"  ({better})" if number == 1 else ""
            print(LINE.format(first, contender, *texts).rstrip())


def gather(measures: list[Measure], contenders: list[str], rounds: int, what: str,
           measured: Callable[[str], list[float]]) -> list[Measure]:
    """Measures all contenders in each round, so that interference affects all of them, and ratios are formed
    within a round. Every other round is in reverse order, so that no contender always follows the same one."""
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            progress(f"{what}: round {number + 1} of {rounds}")
            for measure, value in zip(measures, tried(measured, contender)):
                measure.add(contender, value)
    progress("")
    for measure in measures:
        measure.values = {contender: measure.values[contender] for contender in contenders}
    return measures


def tried(measured: Callable[[str], list[float]], contender: str) -> list[float]:
    for _ in range(TRIES - 1):
        try:
            return measured(contender)
        except Spoiled as spoiled:
            print(f"again: {spoiled}", file=sys.stderr)
    return measured(contender)


def compare_generators(arguments: argparse.Namespace, scratch: Path) -> list[Measure]:
    found = []
    with Bed() as bed:
        # Not on the generator's core, because this program reads the counter.
        stay_on(generators.OTHER_CORE)
        bed.wire(*generators.WIRE)
        contest = Generators(arguments.wiretail, scratch)
        contest.prepare(bed)
        packets = int(arguments.seconds * generators.EXPECTED_FLOOD_PPS)
        rate = [Measure("highest rate, received", "kpps", True)]
        found += gather(rate, contest.flooding, arguments.rounds, "highest rate",
                        lambda name: [generators.flood(bed, contest, name, packets) / 1000])
        show(f"Load generators on one veth pair, frames of 100 bytes, one core; ratio: to {contest.flooding[0]}",
             found, contest.flooding[0])
        deviations, skipped = [], []
        for kpps in RATES_KPPS:
            shares = Measure(f"{kpps} kpps, skipped packets", "per million", False)

            def paced(name: str, pps: int = kpps * 1000, shares: Measure = shares) -> list[float]:
                run = generators.paced(bed, contest, name, pps, int(arguments.seconds * pps))
                if run.skipped:
                    shares.add(name, run.skipped * 1e6)
                both = [nearest_rank(values, share) for values in (run.gaps_ns, run.schedule_ns) for _, share in SHARES]
                return [run.rate_pps / 1000, *both]
            wanted = [Measure(f"requested rate: {kpps}; achieved", "kpps", True)]
            wanted += [Measure(f"{kpps} kpps, {kind} deviation {name}", "ns", False)
                       for kind in ("gap", "schedule") for name, _ in SHARES]
            deviations += gather(wanted, contest.pacing, arguments.rounds, f"{kpps} kpps", paced)
            skipped.append(shares)
    show("Deviation from the requested gap, and from a schedule of the requested rate that begins as late as possible; "
         f"ratio: to {contest.pacing[0]}", deviations, contest.pacing[0])
    for shares in skipped:
        for name, values in shares.values.items():
            print(f"  {shares.name} of {name}: {statistics.median(values):.0f} {shares.unit} "
                  f"({between(values, 0)}) in {len(values)} of {arguments.rounds} rounds")
    return found + deviations + skipped


def compare_forwarders(arguments: argparse.Namespace, scratch: Path) -> list[Measure]:
    found = _forwarders(arguments, scratch, forwarders.NAMES)
    if has_xdp(arguments.wiretail, "forward"):
        found += _forwarders(arguments, scratch, forwarders.XDP_NAMES)
    return found


def _forwarders(arguments: argparse.Namespace, scratch: Path, names: list[str]) -> list[Measure]:
    what = "AF_XDP latency" if names is forwarders.XDP_NAMES else "latency"
    measures = [Measure(f"{what} {name}", "ns", False) for name, _ in SHARES]
    lost = dict.fromkeys(names, 0)
    with Bed() as bed, forwarders.huge_pages():
        contest = Generators(arguments.wiretail, scratch)
        # Not on the forwarder's core, where it would starve.
        stay_on(generators.GENERATOR_CORE)

        def forwarded(name: str) -> list[float]:
            burst = forwarders.burst(bed, contest, arguments.wiretail, name, FORWARDED_PPS, arguments.seconds)
            if len(burst.latencies) < 1000:
                raise Spoiled(f"{name}: only {len(burst.latencies)} packets crossed")
            lost[name] += burst.lost
            return [nearest_rank(burst.latencies, share) for _, share in SHARES]

        gather(measures, names, arguments.rounds, "forwarders", forwarded)
    show(f"Forwarders, {FORWARDED_PPS // 1000} kpps in bursts of {arguments.seconds} s, one core; "
         f"ratio: to {names[0]}", measures, names[0])
    sent = arguments.rounds * int(FORWARDED_PPS * arguments.seconds)
    for name, packets in lost.items():
        if packets:
            print(f"  {name} lost {packets} of {sent} packets")
    return measures


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benches/dataplane", description=__doc__)
    parser.add_argument("--wiretail", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("generators", "forwarders"), help="print only one of the two tables")
    parser.add_argument("--rounds", type=int, default=20, help="number of interleaved rounds (20)")
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of a run in seconds, at most 0.7 (0.5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values of all rounds as JSON")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or not 0.05 <= arguments.seconds <= BURST_SECONDS_MAX:
        parser.error(f"expected at least one round, of 0.05 to {BURST_SECONDS_MAX} seconds")
    return arguments


def main() -> None:
    arguments = arguments_of()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell that starts this in the background ignores the signal; restore its handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("benches/dataplane: needs two cores: one for the load, one for the measured program")
    tables = {"generators": compare_generators, "forwarders": compare_forwarders}
    cores = os.sched_getaffinity(0)
    print(f"{arguments.rounds} interleaved rounds of {arguments.seconds} s, {os.cpu_count()} cores, "
          f"Linux {platform.release()}, load average before: {os.getloadavg()[0]:.2f}")
    results: dict[str, list[dict]] = {}
    # In memory, so that tcpreplay does not wait for a disk.
    with tempfile.TemporaryDirectory(prefix="wiretail-bench-", dir="/dev/shm") as scratch:
        for name, compare in tables.items():
            if arguments.only in (None, name):
                os.sched_setaffinity(0, cores)
                results[name] = [vars(measure) for measure in compare(arguments, Path(scratch))]
    if arguments.json:
        settings = {"rounds": arguments.rounds, "seconds": arguments.seconds, "kernel": platform.release()}
        arguments.json.write_text(json.dumps({"settings": settings, **results}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"benches/dataplane: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
