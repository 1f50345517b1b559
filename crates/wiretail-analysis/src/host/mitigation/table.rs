//! Entries: explanation, steps, and sources. `{nohz-full}` is replaced by the mitigation of that audit rule.

use wiretail_schema::causes::mitigation::Source;

use super::Entry;

const NO_HZ: Source = Source {
    title: "Linux: NO_HZ, reducing scheduling-clock ticks",
    url: "https://docs.kernel.org/timers/no_hz.html",
};
const PARAMETERS: Source = Source {
    title: "Linux: kernel parameters (isolcpus, nohz_full, rcu_nocbs, irqaffinity)",
    url: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
};
const KTHREADS: Source = Source {
    title: "Linux: reducing OS jitter due to per-CPU kthreads (and softirqs)",
    url: "https://docs.kernel.org/admin-guide/kernel-per-CPU-kthreads.html",
};
const NAPI: Source =
    Source { title: "Linux: NAPI and busy polling", url: "https://docs.kernel.org/networking/napi.html" };
const SYSCTL_KERNEL: Source = Source {
    title: "Linux: /proc/sys/kernel (numa_balancing, nmi_watchdog)",
    url: "https://docs.kernel.org/admin-guide/sysctl/kernel.html",
};

pub(super) const TIMER: Entry = Entry {
    what: "Kernel tick: on a busy core it fires CONFIG_HZ times per second (100 to 1000) to account time, run timers \
        and invoke the scheduler.",
    steps: &[
        "Make the core tickless; it must have a single runnable task, and another core must keep the time: {nohz-full}",
        "A second runnable task brings the tick back: {isolcpus}; {tasks}",
        "In a virtual machine, the host's tick interrupts as well: also set nohz_full= for the host's core.",
        "Timeouts of the program itself (timers, poll and epoll with a timeout) use the same interrupt: poll without \
        timeouts on this core.",
    ],
    sources: &[NO_HZ, PARAMETERS],
};

pub(super) const TLB_SHOOTDOWN: Entry = Entry {
    what: "A thread unmapped memory or changed its protection (munmap, madvise, mprotect, a freed heap, the stack of \
        a thread that ended). Every core that runs a thread of the same program is interrupted to invalidate the old \
        addresses.",
    steps: &[
        "Allocate memory once, before packets arrive, and keep it: use memory pools, and do not call munmap, \
        madvise(MADV_DONTNEED) or mprotect while packets are processed.",
        "With glibc, prevent free() from returning memory: set M_TRIM_THRESHOLD to -1 and M_MMAP_MAX to 0 with \
        mallopt, or set MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_MAX_ in the environment.",
        "Move code that allocates (logging, rule reload, statistics) into a separate process: only cores that run \
        threads of the same address space are interrupted.",
        "Disable features that move pages in the background: {thp}; {numa-balancing}; {compaction}",
    ],
    sources: &[
        Source { title: "Linux: the TLB", url: "https://docs.kernel.org/arch/x86/tlb.html" },
        Source { title: "mallopt(3)", url: "https://man7.org/linux/man-pages/man3/mallopt.3.html" },
        Source {
            title: "Linux: transparent huge pages",
            url: "https://docs.kernel.org/admin-guide/mm/transhuge.html",
        },
        SYSCTL_KERNEL,
        Source {
            title: "Linux: /proc/sys/vm (compaction_proactiveness)",
            url: "https://docs.kernel.org/admin-guide/sysctl/vm.html",
        },
    ],
};

pub(super) const MEMBARRIER: Entry = Entry {
    what: "A thread called membarrier with an expedited command: every core that runs a thread of the same program \
        (or of a registered one) is interrupted to execute a memory barrier.",
    steps: &[
        "Find the calling thread in the table of senders: user-space RCU, garbage collectors and just-in-time \
        compilers call membarrier. Call it outside of the measurement, or in another process.",
        "In programs with liburcu, use the flavours qsbr or mb, which do not call membarrier.",
        "If the caller may wait, use MEMBARRIER_CMD_GLOBAL, which interrupts no core (kernels with nohz_full= reject it).",
    ],
    sources: &[
        Source { title: "membarrier(2)", url: "https://man7.org/linux/man-pages/man2/membarrier.2.html" },
        Source { title: "Userspace RCU: its flavours", url: "https://liburcu.org/" },
    ],
};

pub(super) const CODE_PATCHING: Entry = Entry {
    what: "The kernel patched its own code (a static key, a tracepoint, a probe, a BPF trampoline, a module): all \
        cores are interrupted so that none of them runs the old code.",
    steps: &[
        "Do not enable or disable tracing, perf, BPF programs, firewall rules or modules during the measurement: the \
        kernel patches its code when these start and stop, not in between.",
        "isolcpus= and nohz_full= do not prevent these interrupts.",
    ],
    sources: &[Source {
        title: "Linux mailing list: deferring kernel text patching interrupts for isolated cores",
        url: "https://lkml.iu.edu/2603.3/00653.html",
    }],
};

pub(super) const STEERING: Entry = Entry {
    what: "Another core received a packet and steered it to this core (receive packet steering). This \
        core is interrupted to process the packet.",
    steps: &[
        "Disable steering on every interface: {rps}",
        "Set net.core.rps_sock_flow_entries=0 to disable receive flow steering, which sends packets to the application's core.",
    ],
    sources: &[Source {
        title: "Linux: scaling in the networking stack (RSS, RPS, RFS)",
        url: "https://docs.kernel.org/networking/scaling.html",
    }],
};

pub(super) const DEFERRED_FREE: Entry = Entry {
    what: "This core had allocated packet buffers. Another core returned them, so that they are freed on this core.",
    steps: &["Set net.core.skb_defer_max=0: the core that used the buffers then frees them."],
    sources: &[Source {
        title: "Linux: /proc/sys/net (skb_defer_max)",
        url: "https://docs.kernel.org/admin-guide/sysctl/net.html",
    }],
};

pub(super) const WAKEUP: Entry = Entry {
    what: "Another core woke a thread that sleeps on this core, often the device's thread because a packet arrived.",
    steps: &[
        "Poll instead of sleeping (DPDK, AF_XDP or sockets with busy polling): a polling device is not woken.",
        "Keep other threads off this core: the table of senders shows which task woke the thread, and the tasks show which thread then ran.",
    ],
    sources: &[NAPI, KTHREADS],
};

pub(super) const FUNCTION_CALL: Entry = Entry {
    what: "Another core interrupted this core to run a kernel function on it, and often waited for the function to complete.",
    steps: &[
        "Find the requesting task and its system call in the table of senders: make that call before the packets \
        arrive, or not at all.",
        "Avoid administrative work during the measurement: perf, tracing, loading modules and BPF programs, changing \
        settings, taking cores online or offline.",
    ],
    sources: &[KTHREADS],
};

pub(super) const RESCHEDULE: Entry = Entry {
    what: "Another core woke a task that may run on this core, and interrupted this core so that its scheduler chooses again.",
    steps: &[
        "Keep all other tasks off the core: {isolcpus}; {tasks}",
        "Give each thread of the device its own core: threads that are pinned to the same core wake each other on it.",
    ],
    sources: &[KTHREADS, PARAMETERS],
};

pub(super) const VECTOR: Entry = Entry {
    what: "Interrupt raised by the processor itself: irq_work for deferred kernel work (perf, tracing, printk); \
        others for temperature, machine checks or the hypervisor.",
    steps: &[
        "irq_work: avoid perf, tracing and kernel messages during the measurement.",
        "thermal_apic: the processor throttles itself; check cooling and power limits.",
    ],
    sources: &[KTHREADS],
};

pub(super) const IRQ: Entry = Entry {
    what: "A device's interrupt is handled on the packet core.",
    steps: &[
        "Move the interrupt to another core, and prevent it from moving back: {irq-affinity}; {interrupts}; {irqbalance}",
        "If it belongs to a NIC: {nic-queues}",
    ],
    sources: &[
        Source {
            title: "Linux: SMP IRQ affinity",
            url: "https://docs.kernel.org/core-api/irq/irq-affinity.html",
        },
        PARAMETERS,
    ],
};

pub(super) const NET_SOFTIRQ: Entry = Entry {
    what: "On the packet core, the kernel receives or sends packets of the device's own links or of other links.",
    steps: &[
        "Receiving the device's own packets is part of its work; busy polling in user space (AF_XDP, DPDK) avoids this softirq.",
        "Otherwise, route the NICs' interrupts to other cores, and start other network traffic on those cores: {irq-affinity}",
        "Stop other cores from steering packets to this one: {rps}",
    ],
    sources: &[
        KTHREADS,
        Source {
            title: "Linux: scaling in the networking stack",
            url: "https://docs.kernel.org/networking/scaling.html",
        },
    ],
};

pub(super) const TIMER_SOFTIRQ: Entry = Entry {
    what: "Timers expired that the kernel or a program had set on this core.",
    steps: &[
        "Isolate the core, so that unpinned timers move to other cores: {nohz-full}",
        "Keep system calls that set timers off the core. Take the core offline and online again before the device \
        starts, so that recurring timers move to other cores.",
    ],
    sources: &[KTHREADS, NO_HZ],
};

pub(super) const RCU_SOFTIRQ: Entry = Entry {
    what: "RCU callbacks: the kernel frees memory that no reader uses any more.",
    steps: &[
        "Offload the callbacks to rcuo... threads, which the packet core does not have to wake: {rcu-nocbs}",
        "Bind those threads to other cores (taskset, a cpuset).",
    ],
    sources: &[KTHREADS, PARAMETERS],
};

pub(super) const SCHED_SOFTIRQ: Entry = Entry {
    what: "The scheduler compares the load of the cores and moves tasks.",
    steps: &[
        "Exclude the core from load balancing: {isolcpus}; {cpuset-partition}",
        "Make the core tickless, because the tick triggers load balancing: {nohz-full}",
    ],
    sources: &[
        KTHREADS,
        PARAMETERS,
        Source { title: "cpuset(7)", url: "https://man7.org/linux/man-pages/man7/cpuset.7.html" },
    ],
};

pub(super) const SOFTIRQ: Entry = Entry {
    what: "Work that was deferred by an interrupt on this core.",
    steps: &[
        "Find the device that defers the work (block device, NIC), and route its interrupts to another core.",
        "Start input and output on that device from other cores.",
    ],
    sources: &[KTHREADS],
};

pub(super) const NMI: Entry = Entry {
    what: "Non-maskable interrupt: perf's hardware counters, or the watchdog that detects hung cores.",
    steps: &[
        "Disable the watchdog: {nmi-watchdog}",
        "Do not use perf with hardware events during the measurement.",
    ],
    sources: &[
        SYSCTL_KERNEL,
        Source {
            title: "Linux: softlockup and hardlockup detectors",
            url: "https://docs.kernel.org/admin-guide/lockup-watchdogs.html",
        },
    ],
};

pub(super) const TASK: Entry = Entry {
    what: "The scheduler ran another task on the packet core.",
    steps: &[
        "Keep other tasks off the core, as host.isolate of an experiment does for each trial: {isolcpus}; {tasks}",
        "Give the device's thread a real-time priority (chrt -f 50), so that ordinary tasks wait.",
        "If a task has a higher real-time priority than the device's thread, move the task or lower its priority.",
    ],
    sources: &[
        PARAMETERS,
        Source { title: "sched(7)", url: "https://man7.org/linux/man-pages/man7/sched.7.html" },
        Source { title: "cpuset(7)", url: "https://man7.org/linux/man-pages/man7/cpuset.7.html" },
    ],
};

pub(super) const KWORKER: Entry = Entry {
    what: "A kernel worker thread ran queued work on the packet core.",
    steps: &[
        "Restrict unbound workers to the other cores: {workqueue}",
        "Bound workers run work that was queued on this core: keep system calls and interrupts off the core. If \
        the device's thread has a real-time priority, these workers wait.",
    ],
    sources: &[KTHREADS],
};

pub(super) const FAIR_SERVER: Entry = Entry {
    what: "A real-time thread kept the core busy for most of a second while an ordinary task waited. The kernel then \
        ran that task, for up to 50 ms of each second.",
    steps: &[
        "Keep ordinary tasks off the core: {isolcpus}; {workqueue}",
        "From Linux 6.12 on, set the budget of the fair server to 0; a task that starves can then hang the system: {fair-server}",
        "Before Linux 6.12, disable the throttling of real-time threads, with the same risk: {rt-throttling}",
    ],
    sources: &[
        Source {
            title: "Linux: commit 'sched/fair: Fair server interface'",
            url: "https://git.kernel.org/torvalds/c/d741f297bceaf52aa1b97b997708fc0cd853c73e",
        },
        Source {
            title: "Linux: real-time group scheduling (sched_rt_runtime_us)",
            url: "https://docs.kernel.org/scheduler/sched-rt-group.html",
        },
    ],
};

pub(super) const PAGE_FAULT: Entry = Entry {
    what: "The program accessed memory that had an address but no page yet, or whose page had to be copied first. The \
        kernel had to provide the page.",
    steps: &[
        "At the start, call mlockall(MCL_CURRENT | MCL_FUTURE) to keep all memory resident, if the limit allows it. Huge pages reduce the number of faults: {locked-memory}; {hugepages}",
        "Map memory with MAP_POPULATE, or call madvise(MADV_POPULATE_WRITE), and touch the threads' stacks once.",
        "Do not fork while packets are processed: after a fork, the first write to each page copies it.",
    ],
    sources: &[
        Source { title: "mlockall(2)", url: "https://man7.org/linux/man-pages/man2/mlockall.2.html" },
        Source { title: "mmap(2)", url: "https://man7.org/linux/man-pages/man2/mmap.2.html" },
        Source { title: "madvise(2)", url: "https://man7.org/linux/man-pages/man2/madvise.2.html" },
    ],
};

pub(super) const ASLEEP: Entry = Entry {
    what: "The device's thread was asleep when the packet arrived, or waited for something else (a lock, a file, a timeout).",
    steps: &[
        "Poll instead of sleeping: DPDK, AF_XDP or sockets with busy polling, on a dedicated core.",
        "If the thread must sleep, use a real-time priority and shallow idle states to shorten the wakeup: {idle-states}",
        "Remove file access, logging and locks from the packet thread.",
    ],
    sources: &[
        NAPI,
        Source { title: "Linux: idle states", url: "https://docs.kernel.org/admin-guide/pm/cpuidle.html" },
        Source {
            title: "Linux: PM quality of service (/dev/cpu_dma_latency)",
            url: "https://docs.kernel.org/power/pm_qos_interface.html",
        },
    ],
};

pub(super) const PAUSED: Entry = Entry {
    what: "The core stopped and its kernel recorded no event: the hypervisor ran something else on the physical \
        core, or the firmware took it (system management interrupt).",
    steps: &[
        "Virtual machine: give each vCPU a physical core that is isolated on the host, and overcommit neither cores nor memory: {vcpu-pinning}; {isolcpus}; {nohz-full}",
        "Bare metal: detect system management interrupts with the kernel's hwlat tracer, and disable their sources: {smi}",
        "If the machine is shared with others, measure on another machine.",
    ],
    sources: &[
        Source {
            title: "Linux: hardware latency detector",
            url: "https://docs.kernel.org/trace/hwlat_detector.html",
        },
        PARAMETERS,
    ],
};

pub(super) const DEVICE: Entry = Entry {
    what: "The device's own thread ran without interruption: the program itself took this long.",
    steps: &[
        "This is not interference. Profile the program (perf record on its core): look for packets that need more \
        work (rules, fragments, new flows), and for work between packets (timers, statistics, logs).",
    ],
    sources: &[Source {
        title: "perf-record(1)",
        url: "https://man7.org/linux/man-pages/man1/perf-record.1.html",
    }],
};

pub(super) const BURST: Entry = Entry {
    what: "Packets arrived faster than the device forwards them, and this packet waited for the packets ahead of it.",
    steps: &[
        "The traffic causes this delay: compare with traffic.burst = 1, or with a lower rate.",
        "Use more cores (receive side scaling), or reduce the work per packet, to drain the queue sooner.",
    ],
    sources: &[Source {
        title: "RFC 2544, section 21: bursty traffic",
        url: "https://www.rfc-editor.org/rfc/rfc2544#section-21",
    }],
};

pub(super) const HOST_TICKS: Entry = Entry {
    what: "The vCPU stopped at the rate of a kernel tick, but the guest had no tick at these times: the host's kernel handled its timer interrupt on the physical core.",
    steps: &[
        "On the host, for the physical core to which the vCPU is pinned: {vcpu-pinning}; {isolcpus}; {nohz-full}",
        "A guest cannot change this: without access to the host, treat it as the noise floor of this machine.",
    ],
    sources: &[Source {
        title: "Linux: NO_HZ, reducing scheduling-clock ticks",
        url: "https://docs.kernel.org/timers/no_hz.html",
    }],
};

pub(super) const WAKING_UP: Entry = Entry {
    what: "The packet had arrived, and the wakeup interrupt had been sent to the device's core. This is the time until the core handled that interrupt: an idle core had to leave its idle state, or the hypervisor had to resume a halted vCPU.",
    steps: &[
        "Poll instead of sleeping: DPDK, AF_XDP or sockets with busy polling, on a dedicated core.",
        "Disable deep idle states of the core: {idle-states}",
        "In a virtual machine, let the guest (cpuidle-haltpoll) or the host poll before the vCPU halts, and pin the vCPU: {halt-polling}; {vcpu-pinning}",
    ],
    sources: &[
        Source {
            title: "Linux: PM quality of service (/dev/cpu_dma_latency)",
            url: "https://docs.kernel.org/power/pm_qos_interface.html",
        },
        Source {
            title: "Linux: guest halt polling",
            url: "https://docs.kernel.org/virt/guest-halt-polling.html",
        },
        Source {
            title: "Linux: KVM's halt polling",
            url: "https://docs.kernel.org/virt/kvm/halt-polling.html",
        },
    ],
};

pub(super) const LATE_SENDER: Entry = Entry {
    what: "The load generator stalled, then sent all due packets in one burst. The measurement caused this delay, not the device.",
    steps: &[
        "Give the load generator a dedicated core and real-time priority (host.isolate, host.fifo), and let it spin (traffic.pacing = \"spin\") if there are enough cores.",
        "Check its lateness under Validity in the run's report; lower traffic.late-limit to make such trials invalid.",
        "Measure on a machine that is not shared, or with hardware that sends at set times.",
    ],
    sources: &[Source {
        title: "RFC 2330, section 10.2: wire time and host time",
        url: "https://www.rfc-editor.org/rfc/rfc2330#section-10.2",
    }],
};

pub(super) const LOAD: Entry = Entry {
    what: "Packets arrived evenly, but for a while the device took longer per packet than the time between packets.",
    steps: &[
        "Lower the rate: run several values of traffic.rate to find the rate at which the queue no longer drains.",
        "Use more cores (receive side scaling), or reduce the work per packet, to drain the queue sooner.",
    ],
    sources: &[Source {
        title: "RFC 2544, section 26.1: throughput",
        url: "https://www.rfc-editor.org/rfc/rfc2544#section-26.1",
    }],
};

pub(super) const BATCH: Entry = Entry {
    what: "The packet was processed, but the device sends the packets of a batch together, or after a timeout.",
    steps: &[
        "Send each packet as soon as it is processed (skeleton: dut.release = \"immediate\"), or use smaller batches.",
        "If the program collects packets until a timer expires (DPDK's l2fwd drains every 100 us), shorten the timer.",
    ],
    sources: &[Source {
        title: "DPDK: L2 forwarding sample application",
        url: "https://doc.dpdk.org/guides/sample_app_ug/l2_forward_real_virtual.html",
    }],
};

pub(super) const FEEDING: Entry = Entry {
    what: "The core that sends the packets was interrupted between the first tap and the device: the testbed caused \
        this delay, not the device.",
    steps: &[
        "Treat it as measurement error and do not attribute it to the device.",
        "Give the load generator a dedicated, isolated core, and apply the mitigation of the named cause to that core.",
    ],
    sources: &[KTHREADS],
};
