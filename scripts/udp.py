#!/usr/bin/env python3
"""The demo's load generator and its sink: counted UDP packets at a steady rate, standard library only.

    udp.py send ADDRESS PORT PACKETS RATE_PPS PAYLOAD_BYTES
    udp.py sink ADDRESS PORT

The payload is a 4-byte little-endian counter, 0x55 and zeros, as MoonGen's MoonSniff writes it.
"""

import signal
import socket
import struct
import sys
import time


def send(address: str, port: int, packets: int, rate_pps: int, payload_bytes: int) -> None:
    """Sends open loop: each packet has its time, and a late one does not move those after it."""
    payload = bytearray(payload_bytes)
    payload[4] = 0x55
    gap_ns = 1_000_000_000 // rate_pps
    late = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, port))
        # Sleeping would cost up to a tick, so the wait is busy; it lasts only as long as the traffic.
        start_ns = time.monotonic_ns() + 1_000_000
        for counter in range(packets):
            struct.pack_into("<I", payload, 0, counter)
            due_ns = start_ns + counter * gap_ns
            now_ns = time.monotonic_ns()
            late += now_ns > due_ns + gap_ns
            while now_ns < due_ns:
                now_ns = time.monotonic_ns()
            sender.send(payload)
        seconds = (time.monotonic_ns() - start_ns) / 1e9
    print(f"sent {packets} packets in {seconds:.2f} s, {late} of them more than one gap late")


def sink(address: str, port: int) -> None:
    """Holds the port, so that the kernel answers no packet with ICMP; what arrives is for the tap to count."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((address, port))
        print("ready", flush=True)
        signal.pause()


def main() -> None:
    match sys.argv[1:]:
        case ["send", address, *numbers] if len(numbers) == 4:
            send(address, *map(int, numbers))
        case ["sink", address, port]:
            sink(address, int(port))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
