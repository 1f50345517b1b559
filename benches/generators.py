"""Load generators on one wire: their highest rate, and their deviation from gaps and schedule."""

import json
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from struct import pack

from testbed import FIFO, FRAME_LEN, Bed, Failure, Received, Spoiled, Tap, finish, in_netns, on_core, run

GENERATOR_CORE, OTHER_CORE = 0, 1
WIRE = ("g0", "in0")
# Higher than any generator achieves, so that none waits.
FLOOD_PPS = 20_000_000
# To compute the length of such a run.
EXPECTED_FLOOD_PPS = 800_000
FILE_FRAMES = 1000
# Lateness is measured here, so `wiretail generate` must not report it as an error.
LATE_LIMIT = "1min"


PLAIN, XDP = "wiretail generate", "wiretail generate, AF_XDP"
# With each policy for late departures. PLAIN and XDP catch up, so that every packet is sent.
POLICIES = {f"wiretail generate, {policy}": policy for policy in ("catch-up", "skip", "shift")}


def has_xdp(wiretail: str, command: str) -> bool:
    """Returns whether this build supports AF_XDP sockets."""
    return re.search(r"\bxdp\b", run(wiretail, command, "--help")) is not None


class Generators:
    """Command lines of the generators for a number of packets at a rate; None means as fast as possible. The peers
    send copies of Wiretail's first frame, so that the receiving stack treats all of them equally."""

    def __init__(self, wiretail: str, scratch: Path) -> None:
        self._wiretail, self._scratch = wiretail, scratch
        xdp = [XDP] if has_xdp(wiretail, "generate") else []
        self.flooding = [PLAIN, *xdp, "trafgen", "tcpreplay"]
        self.pacing = [*POLICIES, *xdp, "trafgen", "tcpreplay"]

    def prepare(self, bed: Bed) -> None:
        tap = Tap(bed.dut, WIRE[1], 100, 1)
        finish(self.command(PLAIN, bed, 10_000, 10))
        frame = None
        end = time.monotonic() + 2
        while frame is None and time.monotonic() < end:
            frame = tap.frame()
            time.sleep(0.01)
        tap.close()
        if frame is None:
            raise Failure("no frame of wiretail's arrived")
        write_pcap(self._scratch / "frame.pcap", frame, FILE_FRAMES)
        octets = ", ".join(f"0x{octet:02x}" for octet in frame)
        (self._scratch / "frame.cfg").write_text(f"{{ {octets} }}\n")

    def command(self, name: str, bed: Bed, rate_pps: int | None, packets: int, *more: str) -> list[str]:
        if name in (PLAIN, XDP, *POLICIES):
            rate = f"{(rate_pps or FLOOD_PPS) // 1000}kpps"
            return [self._wiretail, "generate", f"{bed.load}/{WIRE[0]}", "--rate", rate,
                    "--packets", str(packets), "--size", f"{FRAME_LEN}B",
                    "--cpu", str(GENERATOR_CORE), "--fifo", str(FIFO), "--late-limit", LATE_LIMIT,
                    "--late-policy", POLICIES.get(name, "catch-up"),
                    *(["--socket", "xdp"] if name == XDP else []), *more]
        if name == "trafgen":
            return in_netns(bed.load, on_core(GENERATOR_CORE, self._trafgen(rate_pps, packets)))
        return in_netns(bed.load, on_core(GENERATOR_CORE, self._tcpreplay(rate_pps, packets)))

    def _trafgen(self, rate_pps: int | None, packets: int) -> list[str]:
        # Bypasses the queueing discipline by default (--qdisc-path). With --rate, it sends the packets of a second
        # back to back and sleeps for the rest; --gap spaces packets.
        pace = ["--gap", f"{1_000_000_000 // rate_pps}ns"] if rate_pps else []
        return ["trafgen", "--dev", WIRE[0], "--conf", str(self._scratch / "frame.cfg"), "--cpus", "1",
                "--num", str(packets), "--no-cpu-stats", *pace]

    def _tcpreplay(self, rate_pps: int | None, packets: int) -> list[str]:
        # gtod is by far its most even timer, because it busy-waits.
        pace = [f"--pps={rate_pps}", "--timer=gtod"] if rate_pps else ["--topspeed"]
        loops = -(-packets // FILE_FRAMES)
        return ["tcpreplay", "--intf1", WIRE[0], "--preload-pcap", "--no-flow-stats", "--quiet", *pace,
                f"--loop={loops}", f"--limit={packets}", str(self._scratch / "frame.pcap")]


def write_pcap(path: Path, frame: bytes, count: int) -> None:
    header = pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = (pack("<IIII", 0, number, len(frame), len(frame)) + frame for number in range(count))
    path.write_bytes(header + b"".join(records))


def flood(bed: Bed, generators: Generators, name: str, packets: int) -> float:
    """Packets per second at the receiving end, between 10 % and 90 % of the packets."""
    received = Received(bed.dut, WIRE[1])
    before = received.packets()
    samples: list[tuple[int, int]] = []
    done = threading.Event()

    def sample() -> None:
        while not done.is_set():
            samples.append((time.monotonic_ns(), received.packets() - before))
            time.sleep(0.001)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        finish(generators.command(name, bed, None, packets))
    finally:
        done.set()
        sampler.join()
        total = received.packets() - before
        received.close()
    if total != packets:
        raise Spoiled(f"{name}: {packets} packets were requested, {total} arrived")
    inner = [(at, count) for at, count in samples if 0.1 * total <= count <= 0.9 * total]
    if len(inner) < 10:
        raise Spoiled(f"{name}: only {len(inner)} readings of the counter; use longer runs (--seconds)")
    return (inner[-1][1] - inner[0][1]) * 1e9 / (inner[-1][0] - inner[0][0])


@dataclass
class Paced:
    """A run at a requested rate: its rate on the wire in packets per second, the sorted deviations from the requested
    gap and from the schedule in ns, and the share of packets that were skipped."""

    rate_pps: float
    gaps_ns: list[int]
    schedule_ns: list[int]
    skipped: float


def paced(bed: Bed, generators: Generators, name: str, rate_pps: int, packets: int) -> Paced:
    tap = Tap(bed.dut, WIRE[1], packets, 2 * packets / rate_pps + 2)
    own = name in (XDP, *POLICIES)
    try:
        command = generators.command(name, bed, rate_pps, packets, *(["--json"] if own else []))
        # Exit code 1 reports that the rate was out of reach, which the achieved rate shows as well.
        output = finish(command, (0, 1) if own else (0,))
        arrived = tap.records()
    finally:
        tap.close()
    skipped = reported(output)["skipped"] if own else 0
    if len(arrived) != packets - skipped:
        raise Spoiled(f"{name}: {packets} packets were requested, {len(arrived)} arrived")
    stamps = [stamp for stamp, _ in arrived]
    # Packets of Wiretail carry their number in the schedule; the peers send copies of one packet.
    numbers = [number for _, number in arrived] if own else range(packets)
    rate = (len(stamps) - 1) * 1e9 / (stamps[-1] - stamps[0])
    gap = 1_000_000_000 // rate_pps
    gaps = sorted(abs(after - before - gap) for before, after in zip(stamps, stamps[1:]))
    return Paced(rate, gaps, behind_schedule(stamps, numbers, rate_pps), skipped / packets)


def behind_schedule(stamps: list[int], numbers: Iterable[int], rate_pps: int) -> list[int]:
    """Sorted times by which packets are behind a schedule of the requested rate, in ns. The schedule is the latest one
    that no packet precedes, the same way for all generators: the first packet's time would add the delay of a cold
    start to all packets, and a fitted line would hide a wrong rate."""
    behind = [stamp - number * 1_000_000_000 // rate_pps for stamp, number in zip(stamps, numbers)]
    earliest = min(behind)
    return sorted(time - earliest for time in behind)


def reported(output: str) -> dict:
    """The summary of `wiretail generate --json`. Messages may precede and follow it."""
    start = output.find("{")
    if start < 0:
        raise Failure(f"no summary of wiretail generate: {output[-600:]}")
    return json.JSONDecoder().raw_decode(output[start:])[0]
