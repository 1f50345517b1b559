"""Load generators on one wire: their highest rate, and the evenness of their gaps."""

import re
import threading
import time
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


def has_xdp(wiretail: str, command: str) -> bool:
    """Returns whether this build supports AF_XDP sockets."""
    return re.search(r"\bxdp\b", run(wiretail, command, "--help")) is not None


class Generators:
    """Command lines of the generators for a number of packets at a rate; None means as fast as possible. The peers
    send copies of Wiretail's first frame, so that the receiving stack treats all of them equally."""

    def __init__(self, wiretail: str, scratch: Path) -> None:
        self._wiretail, self._scratch = wiretail, scratch
        self.names = [PLAIN, "trafgen", "tcpreplay"]
        if has_xdp(wiretail, "generate"):
            self.names.insert(1, XDP)

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
        if name in (PLAIN, XDP):
            rate = f"{(rate_pps or FLOOD_PPS) // 1000}kpps"
            return [self._wiretail, "generate", f"{bed.load}/{WIRE[0]}", "--rate", rate,
                    "--packets", str(packets), "--size", f"{FRAME_LEN}B",
                    "--cpu", str(GENERATOR_CORE), "--fifo", str(FIFO), "--late-limit", LATE_LIMIT,
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


def deviations(bed: Bed, generators: Generators, name: str, rate_pps: int, packets: int) -> tuple[float, list[int]]:
    """Packets per second on the wire, and the sorted deviations from the requested gap, in ns."""
    tap = Tap(bed.dut, WIRE[1], packets, 2 * packets / rate_pps + 2)
    try:
        finish(generators.command(name, bed, rate_pps, packets))
        stamps = [stamp for stamp, _ in tap.records()]
    finally:
        tap.close()
    if len(stamps) != packets:
        raise Spoiled(f"{name}: {packets} packets were requested, {len(stamps)} arrived")
    gap = 1_000_000_000 // rate_pps
    rate = (packets - 1) * 1e9 / (stamps[-1] - stamps[0])
    return rate, sorted(abs(after - before - gap) for before, after in zip(stamps, stamps[1:]))
