//! What a cause of delay is, and what helps against it: one entry a kind, and entries of their own for names that need
//! something else. Each step says where it is set, and each entry where it is documented.

use wiretail_schema::causes::{CPU_LOAD_LATE, CPU_LOAD_NEIGHBOUR, CauseKind, HOST_TICK, WAKING};

mod table;

use table::*;

/// What a cause is and what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mitigation {
    /// What happens, in a sentence.
    pub what: &'static str,
    /// What to do, the most effective first: a boot parameter, a setting, a habit of the application.
    pub steps: &'static [&'static str],
    /// Where that is documented.
    pub sources: &'static [Source],
}

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// What it is called.
    pub title: &'static str,
    /// Where it is.
    pub url: &'static str,
}

/// What helps against a cause: of this kind, with this name.
pub fn mitigation(kind: CauseKind, name: &str) -> &'static Mitigation {
    match kind {
        CauseKind::Timer => &TIMER,
        CauseKind::TlbShootdown => &TLB_SHOOTDOWN,
        CauseKind::FunctionCall => function(name),
        CauseKind::Reschedule => &RESCHEDULE,
        CauseKind::Vector => &VECTOR,
        CauseKind::Irq => &IRQ,
        CauseKind::Softirq => softirq(name),
        CauseKind::Nmi => &NMI,
        CauseKind::Task => task(name),
        CauseKind::FairServer => &FAIR_SERVER,
        CauseKind::PageFault => &PAGE_FAULT,
        CauseKind::Asleep if name == WAKING => &WAKING_UP,
        CauseKind::Asleep => &ASLEEP,
        CauseKind::Paused if name.starts_with(HOST_TICK) => &HOST_TICKS,
        CauseKind::Paused => &PAUSED,
        CauseKind::Device => &DEVICE,
        CauseKind::Burst if name == CPU_LOAD_LATE => &LATE_SENDER,
        CauseKind::Burst if name == CPU_LOAD_NEIGHBOUR => &LOAD,
        CauseKind::Burst => &BURST,
        CauseKind::Batch => &BATCH,
        CauseKind::Feeding => &FEEDING,
    }
}

/// By the kernel's function that another core has run here.
fn function(name: &str) -> &'static Mitigation {
    match name {
        _ if name.contains("flush_tlb")
            || name.starts_with("do_flush_tlb")
            || name == "do_kernel_range_flush" =>
        {
            &TLB_SHOOTDOWN
        }
        "ipi_mb" | "ipi_rseq" | "ipi_sync_core" | "ipi_sync_rq_state" => &MEMBARRIER,
        "do_sync_core" => &CODE_PATCHING,
        "rps_trigger_softirq" => &STEERING,
        "trigger_rx_softirq" => &DEFERRED_FREE,
        "sched_ttwu_pending" => &WAKEUP,
        _ if name.starts_with("nohz_full_kick") || name.starts_with("tick_") => &TIMER,
        _ => &FUNCTION_CALL,
    }
}

/// By the softirq's name in the trace.
fn softirq(name: &str) -> &'static Mitigation {
    match name {
        "NET_RX" | "NET_TX" => &NET_SOFTIRQ,
        "TIMER" | "HRTIMER" => &TIMER_SOFTIRQ,
        "RCU" => &RCU_SOFTIRQ,
        "SCHED" => &SCHED_SOFTIRQ,
        _ => &SOFTIRQ,
    }
}

/// By the task's name: the kernel's own threads have ways of their own.
fn task(name: &str) -> &'static Mitigation {
    match name {
        _ if name.starts_with("kworker/") => &KWORKER,
        _ if name.starts_with("rcu") => &RCU_SOFTIRQ,
        _ if name.starts_with("ksoftirqd/") => &SOFTIRQ,
        _ if name.starts_with("irq/") => &IRQ,
        _ => &TASK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [CauseKind; 17] = [
        CauseKind::Timer,
        CauseKind::TlbShootdown,
        CauseKind::FunctionCall,
        CauseKind::Reschedule,
        CauseKind::Vector,
        CauseKind::Irq,
        CauseKind::Softirq,
        CauseKind::Nmi,
        CauseKind::Task,
        CauseKind::FairServer,
        CauseKind::PageFault,
        CauseKind::Asleep,
        CauseKind::Paused,
        CauseKind::Device,
        CauseKind::Burst,
        CauseKind::Batch,
        CauseKind::Feeding,
    ];

    #[test]
    fn every_kind_has_something_that_helps_and_a_source() {
        for kind in KINDS {
            let mitigation = mitigation(kind, "");
            assert!(mitigation.what.ends_with('.') && !mitigation.steps.is_empty(), "{kind:?}");
            assert!(!mitigation.sources.is_empty(), "{kind:?}");
            for source in mitigation.sources {
                assert!(source.url.starts_with("https://") && !source.title.is_empty(), "{kind:?}");
            }
        }
    }

    #[test]
    fn names_that_need_something_else_have_it() {
        let of = |kind, name| mitigation(kind, name);
        assert_eq!(of(CauseKind::FunctionCall, "flush_tlb_func"), &TLB_SHOOTDOWN);
        assert_eq!(of(CauseKind::FunctionCall, "ipi_mb"), &MEMBARRIER);
        assert_eq!(of(CauseKind::FunctionCall, "rps_trigger_softirq"), &STEERING);
        assert_eq!(of(CauseKind::FunctionCall, "do_sync_core"), &CODE_PATCHING);
        assert_eq!(of(CauseKind::FunctionCall, "sched_ttwu_pending"), &WAKEUP);
        assert_eq!(of(CauseKind::FunctionCall, "any_other"), &FUNCTION_CALL);
        assert_eq!(of(CauseKind::Softirq, "NET_RX"), &NET_SOFTIRQ);
        assert_eq!(of(CauseKind::Softirq, "RCU"), &RCU_SOFTIRQ);
        assert_eq!(of(CauseKind::Softirq, "TASKLET"), &SOFTIRQ);
        assert_eq!(of(CauseKind::Task, "kworker/1:0H"), &KWORKER);
        assert_eq!(of(CauseKind::Task, "bash"), &TASK);
    }
}
