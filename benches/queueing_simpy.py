#!/usr/bin/env python3
"""The models of `queueing_bench` in SimPy: queueing_simpy.py MODEL PACKETS SEED prints the CPU time and the results as JSON.

Written like SimPy's examples, with a process for each actor and an event for each wait. Garbage collection is on. The
time excludes the import of SimPy, and no percentiles are computed.
"""

import json
import random
import sys
from collections import deque

import simpy


class Path:
    """Ring, server and transfer."""

    def __init__(self, env, packets, rng, *, rate_pps, service, overhead, batch, ring, interrupts):
        self.env, self.packets, self.rng = env, packets, rng
        self.gap_ns = 1e9 / rate_pps
        self.service, self.overhead, self.batch, self.ring = service, overhead, batch, ring
        self.waiting = deque()
        self.arrived = env.event()
        self.sent = self.lost = self.served = 0
        self.delays = 0.0
        self.pending_ns = 0.0
        self.finished = env.event()
        self.server = env.process(self.serve())
        env.process(self.arrive())
        if interrupts:
            env.process(self.interrupt(*interrupts))

    def arrive(self):
        for _ in range(self.packets):
            yield self.env.timeout(self.rng.expovariate(1.0) * self.gap_ns)
            self.sent += 1
            if len(self.waiting) < self.ring:
                self.waiting.append(self.env.now)
                if not self.arrived.triggered:
                    self.arrived.succeed()
            else:
                self.lost += 1

    def interrupt(self, phase_ns, period_ns, length_ns):
        yield self.env.timeout(phase_ns)
        while True:
            self.pending_ns += length_ns
            self.server.interrupt()
            yield self.env.timeout(period_ns)

    def work(self, work_ns):
        """Works for this time, regardless of interruptions."""
        while work_ns > 0.0 or self.pending_ns > 0.0:
            away = self.pending_ns > 0.0
            started = self.env.now
            try:
                yield self.env.timeout(self.pending_ns if away else work_ns)
                if away:
                    self.pending_ns = 0.0
                else:
                    work_ns = 0.0
            except simpy.Interrupt:
                passed = self.env.now - started
                if away:
                    self.pending_ns -= passed
                else:
                    work_ns -= passed

    def serve(self):
        while self.served + self.lost < self.packets:
            while not self.waiting:
                self.arrived = self.env.event()
                try:
                    yield self.arrived
                except simpy.Interrupt:
                    yield from self.work(0.0)
            if self.pending_ns > 0.0:
                yield from self.work(0.0)
            taken = [self.waiting.popleft() for _ in range(min(self.batch, len(self.waiting)))]
            work_ns = self.overhead + sum(self.service(self.rng) for _ in taken)
            yield from self.work(work_ns)
            for at in taken:
                self.delays += self.env.now - at + 1000.0
            self.served += len(taken)
        self.finished.succeed()


MODELS = {
    "m-m-1": {
        "rate_pps": 0.7 / 30e-6,
        "service": lambda rng: rng.expovariate(1.0) * 30_000.0,
        "overhead": 0.0,
        "batch": 1,
        "ring": 4096,
        "interrupts": None,
    },
    "interrupted-batches": {
        "rate_pps": 70_000.0,
        "service": lambda rng: 10_000.0,
        "overhead": 2_000.0,
        "batch": 32,
        "ring": 4096,
        "interrupts": (1e6, 4e6, 50_000.0),
    },
}


def core_seconds():
    """Returns the CPU time of this thread in seconds, without the time of other tasks (proc(5), schedstat)."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def main():
    name, packets, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begin = core_seconds()
    env = simpy.Environment()
    path = Path(env, packets, random.Random(seed), **MODELS[name])
    env.run(until=path.finished)
    seconds = core_seconds() - begin
    mean_ns = path.delays / path.served
    print(json.dumps({"seconds": seconds, "sent": path.sent, "lost": path.lost, "mean_ns": mean_ns}))


if __name__ == "__main__":
    main()
