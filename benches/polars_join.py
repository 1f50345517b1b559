"""The peer: matches and evaluates a pair of captures with numpy and polars, as in a notebook.

    polars_join.py PRE POST [--check SUMMARY.json]

Makes assumptions that allow it to be fast: the files are pcap with nanoseconds and records of equal length,
so numpy maps them as arrays without a loop, and packets are matched by the 4-byte counter at the start of the
UDP payload. Prints one JSON document. With --check, compares its numbers with the output of
`wiretail analyze --json`, and fails if they differ.
"""

import argparse
import json
import sys
import time
from fractions import Fraction

STARTED = time.perf_counter()

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

IMPORTED = time.perf_counter()

FILE_HEADER = 24
RECORD_HEADER = 16
COUNTER_AT = RECORD_HEADER + 14 + 20 + 8  # Ethernet, IPv4 without options, UDP
WINDOW_NS = 5_000_000_000
WORST = 5000
PERCENTILES = ["50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"]


def read(path: str) -> pl.DataFrame:
    """Returns the time and the counter of each packet; the file is mapped, and only these two columns are copied."""
    magic, captured = np.fromfile(path, "<u4", 1)[0], np.fromfile(path, "<u4", 1, offset=FILE_HEADER + 8)[0]
    if magic != 0xA1B23C4D:
        sys.exit(f"{path}: not a little-endian pcap file with nanoseconds")
    record = np.dtype(
        {
            "names": ["seconds", "ns", "captured", "counter"],
            "formats": ["<u4", "<u4", "<u4", "<u4"],
            "offsets": [0, 4, 8, COUNTER_AT],
            "itemsize": RECORD_HEADER + int(captured),
        }
    )
    records = np.memmap(path, record, "r", FILE_HEADER)
    if not (records["captured"] == captured).all():
        sys.exit(f"{path}: the records have different lengths")
    time_ns = records["seconds"].astype(np.int64) * 1_000_000_000 + records["ns"]
    return pl.DataFrame({"counter": records["counter"].copy(), "time_ns": time_ns})


def nearest_ranks(values: np.ndarray, percentiles: list[str]) -> dict[str, int]:
    """Returns the value of rank ceil(p n), exactly; sorts `values`."""
    if values.size == 0:
        return {}
    values.sort()
    # Fractions, because binary floating point does not represent 99.9 % exactly.
    ranks = [-(-Fraction(p) * values.size // 100) for p in percentiles]
    return {p: int(values[max(int(rank), 1) - 1]) for p, rank in zip(percentiles, ranks)}


def describe(values: np.ndarray, percentiles: list[str]) -> dict:
    if values.size == 0:
        return {"count": 0}
    moments = {"mean_ns": float(values.mean()), "stddev_ns": float(values.std(ddof=1))}
    ranks = nearest_ranks(values, percentiles)
    extremes = {"min_ns": int(values[0]), "max_ns": int(values[-1])}
    return {"count": values.size, **extremes, **moments, "percentiles": ranks}


def side(packets: pl.DataFrame, percentiles: list[str]) -> dict:
    """Returns the gaps and rates of one tap."""
    time_ns = packets["time_ns"].to_numpy()
    seconds = (time_ns - time_ns[0]) // 1_000_000_000
    rates = np.bincount(seconds)
    return {
        "packets": packets.height,
        "gaps": describe(np.diff(time_ns), percentiles),
        "rate": [[int(s), int(rates[s])] for s in np.flatnonzero(rates)],
    }


def analyze(pre_path: str, post_path: str, percentiles: list[str]) -> dict:
    pre, post = read(pre_path), read(post_path)
    delay = (pl.col("time_ns_post") - pl.col("time_ns")).alias("delay_ns")
    matched = (
        pre.lazy()
        .join(post.lazy(), on="counter", how="inner", suffix="_post")
        .with_columns(delay)
        .filter((pl.col("delay_ns") > 0) & (pl.col("delay_ns") < WINDOW_NS))
        .collect()
    )
    worst = matched.top_k(WORST, by="delay_ns").sort("delay_ns", descending=True)
    return {
        "pre": side(pre, percentiles),
        "post": side(post, percentiles),
        "delay": describe(matched["delay_ns"].to_numpy(writable=True), percentiles),
        "loss": {"sent": pre.height, "lost": pre.height - matched.height},
        "worst": worst.select("delay_ns", "time_ns", "time_ns_post").rows(),
    }


def check(own: dict, path: str) -> None:
    """Compares everything that both compute with wiretail's summary."""
    with open(path, encoding="utf-8") as file:
        theirs = json.load(file)
    pairs = {"matched": (own["delay"]["count"], theirs["matching"]["matched"])}
    for name in ("pre", "post"):
        pairs[f"{name} packets"] = (own[name]["packets"], theirs[name]["packets"])
        for p in theirs[name]["gaps"]["percentiles"]:
            value = own[name]["gaps"]["percentiles"][repr(p["percentile"])]
            pairs[f"{name} gap p{p['percentile']}"] = (value, p["value_ns"])
    for bound in ("min_ns", "max_ns"):
        pairs[f"delay {bound}"] = (own["delay"][bound], theirs["delay"][bound])
    for p in theirs["delay"]["percentiles"]:
        value = own["delay"]["percentiles"][repr(p["percentile"])]
        pairs[f"delay p{p['percentile']}"] = (value, p["value_ns"])
    pairs["worst delays"] = ([w[0] for w in own["worst"]], [w["delay_ns"] for w in theirs["worst"]])
    different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name, (ours, wiretails) in pairs.items():
        if name.startswith("delay p"):
            print(f"{name:<18} {ours:>14} ns here {wiretails:>14} ns by wiretail")
    if different:
        sys.exit(f"the results differ (here, wiretail): {str(different)[:2000]}")
    print(f"{len(pairs)} results are equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pre")
    parser.add_argument("post")
    parser.add_argument("--check", metavar="SUMMARY")
    arguments = parser.parse_args()
    percentiles = PERCENTILES
    if arguments.check:
        with open(arguments.check, encoding="utf-8") as file:
            summary = json.load(file)
        parts = summary["delay"], summary["pre"]["gaps"], summary["post"]["gaps"]
        wanted = {repr(p["percentile"]) for part in parts for p in part["percentiles"]}
        percentiles = sorted(wanted, key=float)
    result = analyze(arguments.pre, arguments.post, percentiles)
    if arguments.check:
        check(result, arguments.check)
        return
    # What the interpreter and the imports cost is told apart: a notebook pays it once.
    result["seconds"] = {"imports": IMPORTED - STARTED, "work": time.perf_counter() - IMPORTED}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
