//! The entries: what happens, what to do, where it is documented. `{nohz-full}` stands for what that rule of the audit says.

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
    what: "The kernel's tick: on a busy core it comes CONFIG_HZ times a second (100 to 1000), to account time, run \
           timers and let the scheduler look around.",
    steps: &[
        "A core with a single runnable task goes without the tick; another core has to keep the time: {nohz-full}",
        "A second runnable task brings the tick back: {isolcpus}; {tasks}",
        "In a virtual machine the host's tick interrupts, too: nohz_full= belongs on the host's core as well.",
        "Timeouts of the program's own (timers, poll and epoll with a timeout) come by the same interrupt: poll without \
         them on this core.",
    ],
    sources: &[NO_HZ, PARAMETERS],
};

pub(super) const TLB_SHOOTDOWN: Entry = Entry {
    what: "A thread took memory out of use or changed its protection (munmap, madvise, mprotect, a freed heap, an ended \
           thread's stack); each core that runs a thread of the same program is interrupted to forget the old addresses.",
    steps: &[
        "Take memory once, before packets come, and keep it: memory pools, no munmap, no madvise(MADV_DONTNEED), no \
         mprotect while packets are processed.",
        "With glibc keep free from giving memory back: M_TRIM_THRESHOLD -1 and M_MMAP_MAX 0 by mallopt, or \
         MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_MAX_ in the environment.",
        "Put what allocates (logging, rule reload, statistics) into a process of its own: only cores that run threads of \
         the same address space are interrupted.",
        "Switch off what moves pages by itself: {thp}; {numa-balancing}; {compaction}",
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
    what: "A thread called membarrier with an expedited command: each core that runs a thread of its program (or of a \
           registered one) is interrupted to execute a memory barrier.",
    steps: &[
        "See in the table of senders which thread calls it: user-space RCU, garbage collectors and just-in-time compilers \
         do. Let it do so while no packets count, or in another process.",
        "Programs with liburcu: the flavours qsbr and mb do without membarrier.",
        "Where the caller may wait, MEMBARRIER_CMD_GLOBAL interrupts nobody (it is refused on a kernel with nohz_full=).",
    ],
    sources: &[
        Source { title: "membarrier(2)", url: "https://man7.org/linux/man-pages/man2/membarrier.2.html" },
        Source { title: "Userspace RCU: its flavours", url: "https://liburcu.org/" },
    ],
};

pub(super) const CODE_PATCHING: Entry = Entry {
    what: "The kernel changed its own code (a static key, a tracepoint, a probe, a BPF trampoline, a module): all cores are \
           interrupted so that none runs the old one.",
    steps: &[
        "Do not switch tracing, perf, BPF programs, firewall rules or modules while packets count: it happens at each \
         beginning and end, not in between.",
        "isolcpus= and nohz_full= do not keep it off a core.",
    ],
    sources: &[Source {
        title: "Linux mailing list: deferring kernel text patching interrupts for isolated cores",
        url: "https://lkml.iu.edu/2603.3/00653.html",
    }],
};

pub(super) const STEERING: Entry = Entry {
    what: "Another core received a packet and steered it here (receive packet steering): this core is interrupted to take \
           it.",
    steps: &[
        "Switch steering off for every interface: {rps}",
        "Receive flow steering follows the application's core: net.core.rps_sock_flow_entries=0 switches it off.",
    ],
    sources: &[Source {
        title: "Linux: scaling in the networking stack (RSS, RPS, RFS)",
        url: "https://docs.kernel.org/networking/scaling.html",
    }],
};

pub(super) const DEFERRED_FREE: Entry = Entry {
    what: "Another core is done with packet buffers that were allocated here, and hands them back to be freed here.",
    steps: &["net.core.skb_defer_max=0 has them freed where they were used."],
    sources: &[Source {
        title: "Linux: /proc/sys/net (skb_defer_max)",
        url: "https://docs.kernel.org/admin-guide/sysctl/net.html",
    }],
};

pub(super) const WAKEUP: Entry = Entry {
    what: "Another core woke a thread that sleeps on this one: often the device's own, because a packet came for it.",
    steps: &[
        "A device that polls is not woken: DPDK, AF_XDP or sockets with busy polling.",
        "Where it is another thread (the senders say who woke it, tasks who then ran): keep that one off this core.",
    ],
    sources: &[NAPI, KTHREADS],
};

pub(super) const FUNCTION_CALL: Entry = Entry {
    what: "Another core had the kernel run a function here by an interrupt, and often waited until it was done.",
    steps: &[
        "The table of senders says which task asked for it, and in which system call: have it done before the packets \
         come, or not at all.",
        "Keep administration out of the time that counts: perf, tracing, loading of modules and BPF programs, changes of \
         settings, cores that go on- or offline.",
    ],
    sources: &[KTHREADS],
};

pub(super) const RESCHEDULE: Entry = Entry {
    what: "A task was woken that is to run on this core, or may: another core interrupted this one to have it choose anew.",
    steps: &[
        "Leave nobody who may run there: {isolcpus}; {tasks}",
        "Threads of the device itself that are pinned to the same core wake each other there: give them cores of their own.",
    ],
    sources: &[KTHREADS, PARAMETERS],
};

pub(super) const VECTOR: Entry = Entry {
    what: "An interrupt of the processor's own: irq_work for work that the kernel puts off (perf, tracing, printk), others \
           for temperature, machine checks or the hypervisor.",
    steps: &[
        "irq_work: no perf, tracing or kernel messages while packets count.",
        "thermal_apic: the processor throttles itself; look at cooling and power limits.",
    ],
    sources: &[KTHREADS],
};

pub(super) const IRQ: Entry = Entry {
    what: "A device's interrupt is handled on the packet core.",
    steps: &[
        "Move it, and keep it from being moved back: {irq-affinity}; {interrupts}; {irqbalance}",
        "A network interface's own: {nic-queues}",
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
    what: "The kernel receives or sends packets on the packet core, of the device's own links or of others.",
    steps: &[
        "If it is the device's own receiving it is part of its work: busy polling in user space (AF_XDP, DPDK) does without.",
        "Else let the interfaces interrupt other cores, and start other network traffic from there: {irq-affinity}",
        "Nor should other cores steer theirs here: {rps}",
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
    what: "Timers that the kernel or a program set on this core have run out.",
    steps: &[
        "With isolation, unpinned timers go to other cores: {nohz-full}",
        "Keep system calls that set timers off the core; take the core offline and online again before the device starts: \
         recurring timers move away.",
    ],
    sources: &[KTHREADS, NO_HZ],
};

pub(super) const RCU_SOFTIRQ: Entry = Entry {
    what: "The kernel frees what nobody reads any more (RCU callbacks).",
    steps: &[
        "Callbacks then run in threads, rcuo..., which the packet core need not wake: {rcu-nocbs}",
        "Bind those threads to other cores (taskset, a cpuset).",
    ],
    sources: &[KTHREADS, PARAMETERS],
};

pub(super) const SCHED_SOFTIRQ: Entry = Entry {
    what: "The scheduler compares the cores' loads and moves tasks.",
    steps: &[
        "Take the core out of balancing: {isolcpus}; {cpuset-partition}",
        "It is rarer without the tick, from which it starts: {nohz-full}",
    ],
    sources: &[
        KTHREADS,
        PARAMETERS,
        Source { title: "cpuset(7)", url: "https://man7.org/linux/man-pages/man7/cpuset.7.html" },
    ],
};

pub(super) const SOFTIRQ: Entry = Entry {
    what: "Work that an interrupt on this core left for later.",
    steps: &[
        "Force the device whose driver leaves it (block device, network interface) to interrupt another core.",
        "Start input and output of that device from other cores.",
    ],
    sources: &[KTHREADS],
};

pub(super) const NMI: Entry = Entry {
    what: "The non-maskable interrupt: perf's hardware counters, or the watchdog that looks for a hung core.",
    steps: &["Switch the watchdog off: {nmi-watchdog}", "No perf with hardware events while packets count."],
    sources: &[
        SYSCTL_KERNEL,
        Source {
            title: "Linux: softlockup and hardlockup detectors",
            url: "https://docs.kernel.org/admin-guide/lockup-watchdogs.html",
        },
    ],
};

pub(super) const TASK: Entry = Entry {
    what: "The scheduler let another task run on the packet core.",
    steps: &[
        "Keep tasks off the core, as host.isolate of an experiment does for each trial: {isolcpus}; {tasks}",
        "Give the device's thread a real-time priority (chrt -f 50): ordinary tasks then wait.",
        "A task with a higher real-time priority than the device's is somebody's decision: move it, or lower it.",
    ],
    sources: &[
        PARAMETERS,
        Source { title: "sched(7)", url: "https://man7.org/linux/man-pages/man7/sched.7.html" },
        Source { title: "cpuset(7)", url: "https://man7.org/linux/man-pages/man7/cpuset.7.html" },
    ],
};

pub(super) const KWORKER: Entry = Entry {
    what: "A worker thread of the kernel did queued work on the packet core.",
    steps: &[
        "Unbound workers go to the other cores: {workqueue}",
        "Bound ones work for whoever queued it on this core: keep system calls and interrupts off it. A real-time priority \
         of the device's thread makes them wait.",
    ],
    sources: &[KTHREADS],
};

pub(super) const FAIR_SERVER: Entry = Entry {
    what: "A real-time thread had kept the core for most of a second while an ordinary task waited; the kernel then let \
           that one run, for up to 50 ms of each second.",
    steps: &[
        "Leave no ordinary task on the core that waits: {isolcpus}; {workqueue}",
        "Since Linux 6.12 its budget can be taken away; a task that starves there can hang the system: {fair-server}",
        "Before, the throttling of real-time threads did the same, with the same danger: {rt-throttling}",
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
    what: "The program touched memory that had an address but no page yet (or one to be copied); the kernel had to provide \
           it first.",
    steps: &[
        "mlockall(MCL_CURRENT | MCL_FUTURE) at the start has all memory there from then on, if it may; huge pages make faults rarer: {locked-memory}; {hugepages}",
        "Map with MAP_POPULATE, or madvise(MADV_POPULATE_WRITE), and touch the stacks of threads once.",
        "No fork while packets are processed, as it has every page written copied.",
    ],
    sources: &[
        Source { title: "mlockall(2)", url: "https://man7.org/linux/man-pages/man2/mlockall.2.html" },
        Source { title: "mmap(2)", url: "https://man7.org/linux/man-pages/man2/mmap.2.html" },
        Source { title: "madvise(2)", url: "https://man7.org/linux/man-pages/man2/madvise.2.html" },
    ],
};

pub(super) const ASLEEP: Entry = Entry {
    what: "The device's thread slept when the packet came, or waited for something else (a lock, a file, a timeout).",
    steps: &[
        "Poll instead of sleeping: DPDK, AF_XDP or sockets with busy polling, on a core of its own.",
        "If it must sleep, it wakes sooner with a real-time priority and from shallow idle states: {idle-states}",
        "Take files, logs and locks out of the packet thread.",
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
    what: "The core stood still and its kernel has no event for it: the hypervisor ran something else on the physical core, \
           or the firmware took it (system management interrupt).",
    steps: &[
        "Virtual machine: a physical core for each virtual one, isolated on the host, and neither cores nor memory overcommitted: {vcpu-pinning}; {isolcpus}; {nohz-full}",
        "Bare metal: look for system management interrupts with the kernel's hwlat tracer, and switch off their sources: {smi}",
        "A machine that others share can't be made quiet: measure elsewhere.",
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
    what: "The device's own thread ran all the time and nothing took the core from it: its program needed that long.",
    steps: &[
        "This is not interference: look into the program (perf record on its core), at packets that need more work (rules, \
         fragments, new flows) and at what it does between packets (timers, statistics, logs).",
    ],
    sources: &[Source {
        title: "perf-record(1)",
        url: "https://man7.org/linux/man-pages/man1/perf-record.1.html",
    }],
};

pub(super) const BURST: Entry = Entry {
    what: "Packets came faster than the device forwards one, and this one waited for those before it.",
    steps: &[
        "It follows from the traffic: compare with traffic.burst = 1, or a lower rate.",
        "More cores (receive side scaling), or less work a packet, empty the queue sooner.",
    ],
    sources: &[Source {
        title: "RFC 2544, section 21: bursty traffic",
        url: "https://www.rfc-editor.org/rfc/rfc2544#section-21",
    }],
};

pub(super) const HOST_TICKS: Entry = Entry {
    what: "The virtual core stood still at the beat of a kernel's tick, without a tick of its own: the host's kernel took its timer interrupt on the physical core below.",
    steps: &[
        "On the host, for the physical core that the virtual one is pinned to: {vcpu-pinning}; {isolcpus}; {nohz-full}",
        "A guest can't mend it: without access to the host, count it as the floor of this machine.",
    ],
    sources: &[Source {
        title: "Linux: NO_HZ, reducing scheduling-clock ticks",
        url: "https://docs.kernel.org/timers/no_hz.html",
    }],
};

pub(super) const WAKING_UP: Entry = Entry {
    what: "The packet was there and the device's core had been sent the interrupt that wakes it: until the core took it passed this time. A core that idles has left a sleep state, or a hypervisor has had to let a halted virtual processor run again.",
    steps: &[
        "Poll instead of sleeping: DPDK, AF_XDP or sockets with busy polling, on a core of its own.",
        "Keep the core from idle states: {idle-states}",
        "In a virtual machine: let the guest poll before it halts (cpuidle-haltpoll), or the host, and pin the virtual core: {halt-polling}; {vcpu-pinning}",
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
    what: "The load generator was held up, and sent the packets that were due meanwhile together: this is the measurement's own doing and not the device's.",
    steps: &[
        "Give the load generator a core of its own with real-time priority (host.isolate, host.fifo), and let it spin (traffic.pacing = \"spin\") where there are cores enough.",
        "See its lateness under Validity in the run's report; a lower traffic.late-limit makes such trials invalid.",
        "Measure on a machine that is not shared, or with hardware that sends by the clock.",
    ],
    sources: &[Source {
        title: "RFC 2330, section 10.2: wire time and host time",
        url: "https://www.rfc-editor.org/rfc/rfc2330#section-10.2",
    }],
};

pub(super) const LOAD: Entry = Entry {
    what: "Packets came evenly, and for a while the device took longer for each than the time to the next one.",
    steps: &[
        "Offer less: several values of traffic.rate show from which rate on the queue no longer empties.",
        "More cores (receive side scaling), or less work a packet, empty the queue sooner.",
    ],
    sources: &[Source {
        title: "RFC 2544, section 26.1: throughput",
        url: "https://www.rfc-editor.org/rfc/rfc2544#section-26.1",
    }],
};

pub(super) const BATCH: Entry = Entry {
    what: "The packet was done, but the device sends packets of a batch together, or only after a time.",
    steps: &[
        "Send each packet as soon as it is done (the skeleton: dut.release = \"immediate\"), or make batches smaller.",
        "Programs that collect packets until a timer runs out (DPDK's l2fwd drains each 100 us): shorten it.",
    ],
    sources: &[Source {
        title: "DPDK: L2 forwarding sample application",
        url: "https://doc.dpdk.org/guides/sample_app_ug/l2_forward_real_virtual.html",
    }],
};

pub(super) const FEEDING: Entry = Entry {
    what: "The core that sends the packets was interrupted between the first tap and the device: that is the testbed's \
           doing, not the device's.",
    steps: &[
        "Take it as the measurement's own error, and do not blame the device for it.",
        "Give the load generator an isolated core of its own, and apply there what helps against the cause that is named.",
    ],
    sources: &[KTHREADS],
};
