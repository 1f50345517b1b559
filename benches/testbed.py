"""Network namespaces, a tap and child processes for the benchmarks of the data plane."""

import contextlib
import ctypes
import mmap
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_RX_RING, PACKET_STATISTICS = 1, 5, 6
PACKET_VERSION, PACKET_IGNORE_OUTGOING = 10, 23
PACKET_MR_PROMISC, TPACKET_V3, ETH_P_ALL = 1, 2, 3
SO_TIMESTAMPING, RX_SOFTWARE, REPORT_SOFTWARE = 37, 1 << 3, 1 << 4
STATUS_USER, STATUS_STAMPED = 1, 1 << 29

BLOCK_LEN = 1 << 18
BLOCK_TIMEOUT_MS = 60
# Of a frame of 100 bytes: its header, the address behind it, and the alignment of both.
RECORD_LEN = 208

FRAME_LEN = 100
ID_AT = 42
FIFO = 50
PROGRAM_SECONDS = 20
# Blocks that are not full are handed over after two timeouts.
DRAIN_SECONDS = 3

_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """Something that the user can do something about."""


class Spoiled(Failure):
    """The machine did not carry out what was asked for: this run is worth another try."""


def run(*command: str) -> str:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Within it this thread is in the namespace: what it opens belongs there for good."""
    with open("/proc/thread-self/ns/net") as here, open(f"/run/netns/{namespace}") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(here.fileno())


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, 0x40000000) != 0:
        error = ctypes.get_errno()
        raise Failure(f"entering a network namespace: {os.strerror(error)}; run as root")


class Bed:
    """Two namespaces of this process's own, removed in any case."""

    def __init__(self) -> None:
        self.load, self.dut = (f"wtbench-{os.getpid()}-{name}" for name in ("load", "dut"))
        self._made: list[str] = []

    def __enter__(self) -> "Bed":
        try:
            for namespace in (self.load, self.dut):
                run("ip", "netns", "add", namespace)
                self._made.append(namespace)
                # Nobody but the generator is to send.
                run("ip", "netns", "exec", namespace, "sh", "-c",
                    "! [ -e /proc/sys/net/ipv6 ] || sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in reversed(self._made):
            subprocess.run(["ip", "netns", "delete", namespace], stderr=subprocess.DEVNULL)
        self._made.clear()

    def wire(self, load_end: str, dut_end: str) -> None:
        """A veth pair between the namespaces, up. Nobody on it has an address of the generator's frames."""
        run("ip", "-n", self.load, "link", "add", load_end, "type", "veth",
            "peer", "name", dut_end, "netns", self.dut)
        run("ip", "-n", self.load, "link", "set", load_end, "up")
        run("ip", "-n", self.dut, "link", "set", dut_end, "up")

    def unwire(self, load_end: str) -> None:
        run("ip", "-n", self.load, "link", "delete", load_end)


class Received:
    """The receiving end's packet counter (rx_packets), readable from outside its namespace."""

    def __init__(self, namespace: str, interface: str) -> None:
        with inside(namespace):
            self._file = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
        self._name = f"{interface}:"

    def packets(self) -> int:
        for line in os.pread(self._file, 1 << 16, 0).decode().splitlines():
            words = line.split()
            if words and words[0] == self._name:
                return int(words[2])
        raise Failure(f"{self._name} no such interface in /proc/net/dev")

    def close(self) -> None:
        os.close(self._file)


class Tap:
    """All that arrives at an interface, in a TPACKET_V3 ring that holds a whole run: nobody reads while it
    lasts. Stamps are the kernel's, taken where a packet enters the stack. Shares no code with Wiretail.
    `outgoing`: all that leaves there, too, unless it is sent past the queueing discipline."""

    def __init__(self, namespace: str, interface: str, packets: int, seconds: float,
                 outgoing: bool = False) -> None:
        blocks = packets * RECORD_LEN // BLOCK_LEN + int(seconds * 1000 / BLOCK_TIMEOUT_MS) + 4
        with inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            index = socket.if_nametoindex(interface)
        option = self._socket.setsockopt
        option(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        option(SOL_PACKET, PACKET_IGNORE_OUTGOING, int(not outgoing))
        option(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b""))
        option(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | REPORT_SOFTWARE)
        frames = blocks * (BLOCK_LEN // 2048)
        option(SOL_PACKET, PACKET_RX_RING,
               struct.pack("7I", BLOCK_LEN, blocks, 2048, frames, BLOCK_TIMEOUT_MS, 0, 0))
        self._memory = mmap.mmap(self._socket.fileno(), blocks * BLOCK_LEN)
        self._blocks, self._next, self._outstanding = blocks, 0, 0
        # Looks the interface up in the socket's own namespace.
        self._socket.bind((interface, ETH_P_ALL))
        # The kernel needs a moment until it stamps packets where they enter.
        time.sleep(0.02)

    def records(self) -> list[tuple[int, int]]:
        """Stamp in ns and id of each of the generators' frames since the last call; hands the ring back. Complete:
        it asks the kernel how many there are."""
        found: list[tuple[int, int]] = []
        end = time.monotonic() + DRAIN_SECONDS
        while True:
            while (taken := self._read_block(found)) is not None:
                self._outstanding -= taken
            # Since the last question. Packets of a block that is not complete are counted already.
            packets, drops = self._statistics()
            self._outstanding += packets - drops
            if drops > 0:
                raise Spoiled(f"the tap dropped {drops} packets: its ring was too small")
            if self._outstanding == 0:
                return found
            if time.monotonic() > end:
                raise Spoiled(f"the kernel did not hand over {self._outstanding} packets of a tap")
            time.sleep(0.005)

    def _statistics(self) -> tuple[int, int]:
        packets, drops, _ = struct.unpack("3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return packets, drops

    def _read_block(self, found: list[tuple[int, int]]) -> int | None:
        memory, at = self._memory, self._next * BLOCK_LEN
        status, count, first = struct.unpack_from("3I", memory, at + 8)
        if status & STATUS_USER == 0:
            return None
        at += first
        for _ in range(count):
            # tpacket3_hdr: next, seconds, nanoseconds, captured, length, status; and where the frame starts.
            step, seconds, nanoseconds, _, length, packet_status, mac = struct.unpack_from("6IH", memory, at)
            if length == FRAME_LEN:
                if packet_status & STATUS_STAMPED == 0:
                    raise Failure("a packet was not stamped where it entered the stack")
                (number,) = struct.unpack_from("<I", memory, at + mac + ID_AT)
                found.append((seconds * 1_000_000_000 + nanoseconds, number))
            at += step
        struct.pack_into("I", memory, self._next * BLOCK_LEN + 8, 0)
        self._next = (self._next + 1) % self._blocks
        return count

    def frame(self, length: int = FRAME_LEN) -> bytes | None:
        """The first frame of this length in the block that is read next."""
        memory, at = self._memory, self._next * BLOCK_LEN
        status, count, first = struct.unpack_from("3I", memory, at + 8)
        if status & STATUS_USER == 0:
            return None
        at += first
        for _ in range(count):
            step, _, _, captured, wire, _, mac = struct.unpack_from("6IH", memory, at)
            if wire == length == captured:
                return bytes(memory[at + mac:at + mac + length])
            at += step
        return None

    def close(self) -> None:
        self._memory.close()
        self._socket.close()


def stay_on(core: int) -> None:
    """From now on this program runs on this core only."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        raise Failure(f"core {core}: {error.strerror}; it has to be online and in this process's cpuset") from error


def on_core(core: int, command: list[str]) -> list[str]:
    """The command on this core alone under SCHED_FIFO: the same help for everybody. All of it execs, so that
    the process id is the program's."""
    return ["taskset", "-c", str(core), "chrt", "-f", str(FIFO), *command]


def in_netns(namespace: str, command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def finish(command: list[str]) -> str:
    """Runs a program that ends by itself, within a time that is far more than it needs."""
    process = start(command)
    try:
        output, _ = process.communicate(timeout=PROGRAM_SECONDS)
    except BaseException:
        stop(process)
        raise
    if process.returncode != 0:
        raise Spoiled(f"{' '.join(command)} ended with status {process.returncode}: {output[-600:]}")
    return output


def start(command: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def stop(process: subprocess.Popen[str]) -> str:
    """Asks it to end, then makes it; returns what it printed. It loses its priority first: of two real-time
    threads on one core, the one that spins would never let the other one answer."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))
    for ask, seconds in (signal.SIGINT, 5), (signal.SIGTERM, 2), (signal.SIGKILL, 5):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.send_signal(ask)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=seconds)[0]
    return ""
