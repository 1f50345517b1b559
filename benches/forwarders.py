"""Latency of forwarders between the same two wires, in bursts of the same load."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from generators import PLAIN, Generators
from testbed import FIFO, Bed, Failure, Received, Spoiled, Tap, finish, in_netns, inside, run, start, stop

FORWARDER_CORE = 1
# The generator's end comes first. The sink is also in the generator's namespace.
INPUT, OUTPUT = ("g0", "in0"), ("s0", "out0")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
HUGE_PAGES_NEEDED = 48
READY_SECONDS = 20
# The scheduler's fair server stops a spinning real-time thread that starves others after about 0.95 s.
# All forwarders are stopped for this time between bursts.
REST_SECONDS = 0.15
SETTLE_SECONDS = 0.02
PROBE = bytes.fromhex("0200000000020200000000fe88b5") + bytes(46)

NAMES = ["testpmd, net_af_packet", "wiretail, net_af_packet", "wiretail forward", "bridge, on core 1 by RPS", "bridge, on the sender's core"]
# A tap on the forwarder's input does not see packets that an XDP program takes. These forwarders are tapped where
# the generator passes packets to its end of the wire, and are compared with each other only.
XDP_NAMES = ["testpmd, net_af_xdp", "wiretail, net_af_xdp", "wiretail forward, AF_XDP"]


@contextlib.contextmanager
def huge_pages() -> Iterator[None]:
    """Reserves huge pages for DPDK, and restores their number afterwards."""
    before = int(HUGE_PAGES.read_text())
    HUGE_PAGES.write_text(str(max(before, HUGE_PAGES_NEEDED)))
    try:
        yield
    finally:
        HUGE_PAGES.write_text(str(before))


def _devices(driver: str) -> list[str]:
    """Returns the forwarder's two ports as DPDK devices, the same for testpmd and Wiretail."""
    # net_af_xdp without busy polling of the socket, which veth does not support.
    more = ",busy_budget=0" if driver == "net_af_xdp" else ""
    return [f"{driver}{number},iface={wire[1]}{more}" for number, wire in enumerate((INPUT, OUTPUT))]


def _testpmd(bed: Bed, driver: str) -> list[str]:
    devices = [f"--vdev={device}" for device in _devices(driver)]
    # Both threads of testpmd share one core. The first only waits for input, and gets no priority; otherwise the
    # threads would block each other during the start. Without statistics, because these would wake the first thread
    # every second; it would starve next to the forwarding thread, and the fair server would stop the latter.
    return in_netns(bed.dut, ["taskset", "-c", str(FORWARDER_CORE),
        "dpdk-testpmd", "--in-memory", "--no-pci", "-m", "64", "--no-telemetry",
        "--lcores", f"(0,1)@{FORWARDER_CORE}", *devices,
        "--", "--forward-mode=io", "--auto-start", "--total-num-mbufs=8192", "--no-mlockall"])


def _raise_workers(process: subprocess.Popen[str]) -> None:
    """Sets SCHED_FIFO for the forwarding threads, if the program does not do so itself."""
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        if "worker" in (thread / "comm").read_text():
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(FIFO))


@contextlib.contextmanager
def _process(command: list[str], stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    process = start(command, stdin)
    try:
        yield process
    finally:
        output = stop(process)
    if process.returncode not in (0, -signal.SIGINT):
        raise Failure(f"{' '.join(command)} ended with status {process.returncode}: {output[-600:]}")


@contextlib.contextmanager
def _bridge(bed: Bed, core: int | None) -> Iterator[None]:
    link = ("ip", "-n", bed.dut, "link")
    run(*link, "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
    try:
        for interface in (INPUT[1], OUTPUT[1]):
            run(*link, "set", interface, "master", "br0")
        run(*link, "set", "br0", "up")
        if core is not None:
            steer = f"/sys/class/net/{INPUT[1]}/queues/rx-0/rps_cpus"
            run(*in_netns(bed.dut, ["sh", "-c", f"printf %x {1 << core} >{steer}"]))
        yield None
    finally:
        run(*link, "delete", "br0")


def _wiretail(bed: Bed, wiretail: str, *more: str) -> list[str]:
    return [wiretail, "forward", f"{bed.dut}/{INPUT[1]}", f"{bed.dut}/{OUTPUT[1]}", "--batch", "32",
            "--cpu", str(FORWARDER_CORE), "--fifo", str(FIFO), *more]


def _wiretail_dpdk(bed: Bed, wiretail: str, driver: str) -> list[str]:
    ports = [f"{bed.dut}/dpdk:{device}" for device in _devices(driver)]
    return [wiretail, "forward", *ports, "--socket", "dpdk", "--batch", "32",
            "--cpu", str(FORWARDER_CORE), "--fifo", str(FIFO)]


def _forwarding(name: str, bed: Bed, wiretail: str) -> contextlib.AbstractContextManager:
    ways: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
        NAMES[0]: lambda: _process(_testpmd(bed, "net_af_packet"), subprocess.PIPE),
        NAMES[1]: lambda: _process(_wiretail_dpdk(bed, wiretail, "net_af_packet")),
        NAMES[2]: lambda: _process(_wiretail(bed, wiretail)),
        NAMES[3]: lambda: _bridge(bed, FORWARDER_CORE),
        NAMES[4]: lambda: _bridge(bed, None),
        XDP_NAMES[0]: lambda: _process(_testpmd(bed, "net_af_xdp"), subprocess.PIPE),
        XDP_NAMES[1]: lambda: _process(_wiretail_dpdk(bed, wiretail, "net_af_xdp")),
        XDP_NAMES[2]: lambda: _process(_wiretail(bed, wiretail, "--socket", "xdp")),
    }
    return ways[name]()


def _wait_until_ready(bed: Bed, process: subprocess.Popen[str] | None) -> None:
    """Sends probe frames, which are not part of the load, until one has crossed."""
    run_in = Received(bed.load, OUTPUT[0])
    with contextlib.closing(run_in), _sender(bed) as probe:
        before, end = run_in.packets(), time.monotonic() + READY_SECONDS
        while run_in.packets() == before:
            if process and process.poll() is not None:
                raise Failure(f"the forwarder ended: {process.communicate()[0][-600:]}")
            if time.monotonic() > end:
                raise Failure(f"nothing crossed within {READY_SECONDS} s")
            probe.send(PROBE)
            time.sleep(0.02)


@contextlib.contextmanager
def _sender(bed: Bed) -> Iterator[socket.socket]:
    with inside(bed.load):
        probe = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with probe:
        probe.bind((INPUT[0], 0))
        yield probe


class Burst:
    """Latencies of one burst in ns, sorted, and the number of lost packets."""

    def __init__(self, before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
        left = {number: stamp for stamp, number in after}
        self.latencies = sorted(left[number] - stamp for stamp, number in before if number in left)
        self.lost = len(before) - len(self.latencies)


def burst(bed: Bed, generators: Generators, wiretail: str, name: str, rate_pps: int, seconds: float) -> Burst:
    """Runs one burst through a new forwarder on new wires."""
    packets = int(rate_pps * seconds)
    with contextlib.ExitStack() as stack:
        for wire in (INPUT, OUTPUT):
            bed.wire(*wire)
            stack.callback(bed.unwire, wire[0])
        # Open the taps before the forwarder, because the kernel serves the most recently opened packet socket first.
        xdp = name in XDP_NAMES
        before = (bed.load, INPUT[0]) if xdp else (bed.dut, INPUT[1])
        taps = [Tap(*before, packets, 2 * seconds + 5, outgoing=xdp),
                Tap(bed.load, OUTPUT[0], packets, 2 * seconds + 5)]
        for tap in taps:
            stack.callback(tap.close)
        process = stack.enter_context(_forwarding(name, bed, wiretail))
        _wait_until_ready(bed, process)
        if process:
            _raise_workers(process)
        # The first burst is a warm-up.
        load = [generators.command(PLAIN, bed, rate_pps, count, *(["--qdisc"] if xdp else []))
                for count in (packets // 5, packets)]
        _burst(load[0], packets // 5, taps, process)
        return _burst(load[1], packets, taps, process)


def _burst(load: list[str], packets: int, taps: list[Tap], process: subprocess.Popen[str] | None) -> Burst:
    if process:
        process.send_signal(signal.SIGSTOP)
    time.sleep(REST_SECONDS)
    for tap in taps:
        tap.records()
    if process:
        process.send_signal(signal.SIGCONT)
    time.sleep(SETTLE_SECONDS)
    finish(load)
    time.sleep(SETTLE_SECONDS)
    if process:
        process.send_signal(signal.SIGSTOP)
    before, after = (tap.records() for tap in taps)
    if len(before) != packets:
        raise Spoiled(f"{packets} packets were requested, {len(before)} reached the forwarder")
    return Burst(before, after)
