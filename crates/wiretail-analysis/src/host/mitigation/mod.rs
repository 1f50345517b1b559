//! Mitigations per cause of delay: one entry per kind of cause, and separate entries for names that need
//! different steps.
//!
//! If a host setting helps, the entry refers to the audit rule that checks this setting, and explains how the
//! setting affects the cause. The plan of a host cites the same rules. Only steps that no rule can check are
//! written out in the table.

use wiretail_schema::causes::mitigation::{Mitigation, Source};
use wiretail_schema::causes::{CPU_LOAD_LATE, CPU_LOAD_NEIGHBOUR, CauseKind, HOST_TICK, WAKING};

use crate::host::audit::{ALL, Rule};

mod table;

use table::*;

/// Explanation of a cause, with its mitigation steps and sources.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    what: &'static str,
    steps: &'static [&'static str],
    sources: &'static [Source],
}

impl Entry {
    /// Mitigation steps. Each reference to an audit rule is replaced by the mitigation of that rule.
    fn steps(&self) -> Vec<String> {
        let said = |rule: &Rule| format!("{} [{}]", rule.mitigation.replace("{cores}", "CORES"), rule.id);
        let named = |step: &&str| {
            ALL.iter()
                .fold(step.to_string(), |text, rule| text.replace(&format!("{{{}}}", rule.id), &said(rule)))
        };
        self.steps.iter().map(named).collect()
    }
}

/// Mitigation of a cause of the given kind and name.
pub fn mitigation(kind: CauseKind, name: &str) -> Mitigation {
    let entry = entry(kind, name);
    Mitigation { what: entry.what, steps: entry.steps(), sources: entry.sources }
}

fn entry(kind: CauseKind, name: &str) -> &'static Entry {
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

/// Entry for a kernel function that another core ran on this core.
fn function(name: &str) -> &'static Entry {
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

/// Entry for a softirq, by its name in the trace.
fn softirq(name: &str) -> &'static Entry {
    match name {
        "NET_RX" | "NET_TX" => &NET_SOFTIRQ,
        "TIMER" | "HRTIMER" => &TIMER_SOFTIRQ,
        "RCU" => &RCU_SOFTIRQ,
        "SCHED" => &SCHED_SOFTIRQ,
        _ => &SOFTIRQ,
    }
}

/// Entry for a task, by its name. Kernel threads need different steps.
fn task(name: &str) -> &'static Entry {
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
    fn every_cause_kind_has_steps_and_sources() {
        for kind in KINDS {
            let mitigation = mitigation(kind, "");
            assert!(mitigation.what.ends_with('.') && !mitigation.steps.is_empty(), "{kind:?}");
            assert!(mitigation.steps.iter().all(|step| !step.contains('{')), "unknown rule: {mitigation:?}");
            assert!(!mitigation.sources.is_empty(), "{kind:?}");
            for source in mitigation.sources {
                assert!(source.url.starts_with("https://") && !source.title.is_empty(), "{kind:?}");
            }
        }
    }

    #[test]
    fn steps_quote_audit_rules() {
        let steps = mitigation(CauseKind::Nmi, "").steps;
        assert!(steps[0].ends_with("sysctl kernel.nmi_watchdog=0 [nmi-watchdog]"), "{steps:?}");
        assert!(mitigation(CauseKind::Timer, "").steps[0].contains("nohz_full=CORES"));
    }

    #[test]
    fn selects_entries_by_name() {
        let of = |kind, name| entry(kind, name);
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
