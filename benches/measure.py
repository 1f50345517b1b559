#!/usr/bin/env python3
"""Measures and prints the table; called by benches/run."""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS_A_ROUND = 3
MEMORY_TARGET_MIB = 64
LINE = "{:<44} {:>11} {:>19} {:>9} {:>15}  {}"


def percentile(values: list[float], share: float) -> float:
    """Returns the percentile by nearest rank."""
    return sorted(values)[max(0, -(-int(share * 100) * len(values) // 100) - 1)]


def spread(values: list[float], digits: int) -> str:
    return f"{percentile(values, 0.05):.{digits}f} .. {percentile(values, 0.95):.{digits}f}"


def interleaved(commands: dict[str, list[str]], rounds: int, scratch: Path) -> dict[str, list[float]]:
    """Median time in ms of each command in each round. A round runs all commands one after the other, so that
    interference affects all of them; ratios are formed within a round."""
    medians: dict[str, list[float]] = {name: [] for name in commands}
    exported = scratch / "hyperfine.json"
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        # Without a shell, and with standard output to /dev/null, which is hyperfine's default. Its warnings concern
        # outliers within three runs, which the spread over the rounds shows here.
        options = ["-N", "--style", "none", "--warmup", "1", "--runs", str(RUNS_A_ROUND)]
        texts = [shlex.join(command) for command in commands.values()]
        hyperfine = ["hyperfine", *options, "--export-json", str(exported), *texts]
        run = subprocess.run(hyperfine, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"hyperfine failed: {run.stderr}")
        results = json.loads(exported.read_text())["results"]
        for name, result in zip(commands, results):
            medians[name].append(result["median"] * 1000)
    progress("")
    return medians


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<20}\r", end="", file=sys.stderr)


def memory_kib(pid: int) -> dict[str, int]:
    """Returns the process's memory from /proc, in KiB; empty after its end."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    fields = dict(line.split(":", 1) for line in lines)
    return {key: int(fields[key].split()[0]) for key in ("VmHWM", "RssAnon", "RssShmem") if key in fields}


def resources(command: list[str], output: Path) -> dict[str, float]:
    """Runs a command once; returns its times, its peak resident memory, and the peak of its private part."""
    own_kib = peak_kib = 0
    start = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file)
        while True:
            # VmHWM includes mapped file pages, which belong to the page cache; RssAnon and RssShmem do not.
            # ru_maxrss is unsuitable, because it starts from the parent's memory.
            seen = memory_kib(process.pid)
            own_kib = max(own_kib, seen.get("RssAnon", 0) + seen.get("RssShmem", 0))
            peak_kib = max(peak_kib, seen.get("VmHWM", 0))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.002)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with status {process.returncode}")
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": peak_kib / 1024,
        "own_mib": own_kib / 1024,
    }


def own_seconds(command: list[str], rounds: int) -> list[float]:
    """What the peer says its work took, in ms: without the interpreter's start and the imports."""
    outputs = [subprocess.run(command, check=True, capture_output=True).stdout for _ in range(rounds)]
    return [json.loads(output)["seconds"]["work"] * 1000 for output in outputs]


def short_pair(arguments: argparse.Namespace) -> None:
    pre, post = (str(arguments.scratch / f"{side}.pcap") for side in ("pre", "post"))
    peer = [arguments.python, "benches/polars_join.py", pre, post]
    commands = {
        "cat PRE POST": ["cat", pre, post],
        "wiretail analyze --json": [arguments.wiretail, "analyze", "--json", pre, post],
        "hash join in C (percentiles only)": [arguments.hash_join, pre, post],
        "numpy + polars, whole script": peer,
    }
    medians = interleaved(commands, arguments.rounds, arguments.scratch)
    cat, wiretail = medians["cat PRE POST"], medians["wiretail analyze --json"]
    for name, times in medians.items():
        note = "target: at most 2.0 : cat" if times is wiretail else ""
        row(name, times, ratios(times, cat), note)
    script = medians["numpy + polars, whole script"]
    row("  the same : wiretail", [], ratios(script, wiretail), "target: at least 10 : wiretail")
    work = own_seconds(peer, max(5, arguments.rounds // 2))
    # Measured after the rounds, and therefore compared with medians.
    row("numpy + polars, without start and imports", work, [own / statistics.median(cat) for own in work])
    row("  the same : wiretail", [], [own / statistics.median(wiretail) for own in work])


def ratios(times: list[float], base: list[float]) -> list[float]:
    return [own / other for own, other in zip(times, base)]


def row(name: str, times: list[float], ratio: list[float], note: str = "") -> None:
    median, between = (f"{statistics.median(times):.2f}", spread(times, 2)) if times else ("", "")
    print(LINE.format(name, median, between, f"{statistics.median(ratio):.2f}", spread(ratio, 2), note).rstrip())


def long_pair(arguments: argparse.Namespace) -> None:
    pre, post = (str(arguments.scratch / f"long-{side}.pcap") for side in ("pre", "post"))
    output = arguments.scratch / "long.json"
    # The first run brings both files into the page cache; the median is that of the next three.
    subprocess.run(["cat", pre, post], check=True, stdout=subprocess.DEVNULL)
    runs = [resources([arguments.wiretail, "analyze", "--json", pre, post], output) for _ in range(3)]
    runs.sort(key=lambda run: run["cpu_s"])
    run = runs[1]
    summary = json.loads(output.read_text())
    packets = summary["pre"]["packets"] + summary["post"]["packets"]
    matching = summary["matching"]
    own = max(run["own_mib"] for run in runs)
    peak = max(run["peak_mib"] for run in runs)
    verdict = "within" if own < MEMORY_TARGET_MIB else "ABOVE"
    sent, matched, lost = summary["pre"]["packets"], matching["matched"], matching["lost"]
    print(f"\nLong pair: {sent:,} packets sent, {matched:,} matched, {lost:,} lost; median of {len(runs)} runs")
    for text, seconds in ("per core (user + system time)", run["cpu_s"]), ("by wall time", run["wall_s"]):
        rate = packets / seconds / 1e6
        print(f"  {rate:8.2f} million packets/s {text}: {seconds:.2f} s for both captures")
    target = f"{verdict} the target of {MEMORY_TARGET_MIB} MiB"
    print(f"  {own:8.1f} MiB of memory beyond the page cache at most: {target}")
    print(f"  {peak:8.1f} MiB resident at most, mapped file pages included")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wiretail", required=True)
    parser.add_argument("--hash-join", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--scratch", required=True, type=Path)
    parser.add_argument("--rounds", required=True, type=int)
    parser.add_argument("--source", required=True)
    arguments = parser.parse_args()
    rounds = f"{arguments.rounds} interleaved rounds of {RUNS_A_ROUND} runs"
    print(f"\n{arguments.source}, warm cache, {rounds}, {os.cpu_count()} cores")
    print(LINE.format("", "median ms", "p5 .. p95", "ratio", "p5 .. p95", "").rstrip())
    short_pair(arguments)
    long_pair(arguments)


if __name__ == "__main__":
    main()
