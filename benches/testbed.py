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
# Size of the ring's record of a 100-byte frame: its header, the address after it, and the alignment of both.
RECORD_LEN = 208

FRAME_LEN = 100
ID_AT = 42
FIFO = 50
PROGRAM_SECONDS = 20
# The kernel passes on partly filled blocks after two timeouts.
DRAIN_SECONDS = 3

_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """An error that the user can resolve."""


class Spoiled(Failure):
    """The machine did not perform the run as requested; a retry may succeed."""


def run(*command: str) -> str:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Moves this thread into the namespace. Files and sockets that it opens stay in that namespace."""
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
    """Two namespaces of this process, which are always removed."""

    def __init__(self) -> None:
        self.load, self.dut = (f"wtbench-{os.getpid()}-{name}" for name in ("load", "dut"))
        self._made: list[str] = []

    def __enter__(self) -> "Bed":
        try:
            for namespace in (self.load, self.dut):
                run("ip", "netns", "add", namespace)
                self._made.append(namespace)
                # Only the generator may send.
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
        """Creates a veth pair between the namespaces. No interface has an address of the generator's frames."""
        run("ip", "-n", self.load, "link", "add", load_end, "type", "veth",
            "peer", "name", dut_end, "netns", self.dut)
        run("ip", "-n", self.load, "link", "set", load_end, "up")
        run("ip", "-n", self.dut, "link", "set", dut_end, "up")

    def unwire(self, load_end: str) -> None:
        run("ip", "-n", self.load, "link", "delete", load_end)


class Received:
    """The receiving end's packet counter (rx_packets), which can be read from outside its namespace."""

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
    """Captures all packets that arrive at an interface, in a TPACKET_V3 ring that holds a whole run and is read
    afterwards. Timestamps are the kernel's, taken on entry to the stack. Shares no code with Wiretail.
    `outgoing`: also captures packets that leave there, unless they bypass the queueing discipline."""

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
        # Looks up the interface in the socket's namespace.
        self._socket.bind((interface, ETH_P_ALL))
        # The kernel needs some time until it timestamps packets on entry.
        time.sleep(0.02)

    def records(self) -> list[tuple[int, int]]:
        """Returns timestamp in ns and id of each of the generators' frames since the last call, and releases the
        ring. Complete: the number is checked with the kernel's counters."""
        found: list[tuple[int, int]] = []
        end = time.monotonic() + DRAIN_SECONDS
        while True:
            while (taken := self._read_block(found)) is not None:
                self._outstanding -= taken
            # Counted since the last call. Includes packets of incomplete blocks.
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
            # tpacket3_hdr: next, seconds, nanoseconds, captured, length, status; and the offset of the frame.
            step, seconds, nanoseconds, _, length, packet_status, mac = struct.unpack_from("6IH", memory, at)
            if length == FRAME_LEN:
                if packet_status & STATUS_STAMPED == 0:
                    raise Failure("a packet has no timestamp from its entry into the stack")
                (number,) = struct.unpack_from("<I", memory, at + mac + ID_AT)
                found.append((seconds * 1_000_000_000 + nanoseconds, number))
            at += step
        struct.pack_into("I", memory, self._next * BLOCK_LEN + 8, 0)
        self._next = (self._next + 1) % self._blocks
        return count

    def frame(self, length: int = FRAME_LEN) -> bytes | None:
        """Returns the first frame of this length in the next block."""
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
    """Pins this program to a core."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        raise Failure(f"core {core}: {error.strerror}; it has to be online and in this process's cpuset") from error


def on_core(core: int, command: list[str]) -> list[str]:
    """Returns the command pinned to this core with SCHED_FIFO, the same for all programs. All wrappers exec, so the
    process id is that of the program."""
    return ["taskset", "-c", str(core), "chrt", "-f", str(FIFO), *command]


def in_netns(namespace: str, command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def finish(command: list[str], accepted: tuple[int, ...] = (0,)) -> str:
    """Runs a program that ends by itself with one of these exit codes, with a generous time limit. Returns what it
    printed."""
    process = start(command)
    try:
        output, _ = process.communicate(timeout=PROGRAM_SECONDS)
    except BaseException:
        stop(process)
        raise
    if process.returncode not in accepted:
        raise Spoiled(f"{' '.join(command)} ended with status {process.returncode}: {output[-600:]}")
    return output


def start(command: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def stop(process: subprocess.Popen[str]) -> str:
    """Terminates the process, by force if necessary; returns its output. Removes its real-time priority first,
    because a spinning real-time thread would keep another one on its core from reacting."""
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
