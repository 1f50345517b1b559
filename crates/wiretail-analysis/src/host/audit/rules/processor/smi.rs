//! Rule `smi`: no system management interrupts (measured).

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::record::{LATER, MSR};

pub(crate) const RULE: Rule = Rule {
    id: "smi",
    group: RuleGroup::Processor,
    title: "no system management interrupts (measured)",
    why: "During such an interrupt, the firmware stops all cores for an unbounded time. A kernel can neither observe nor prevent this; only a register counts the interrupts.",
    effect: None,
    source: "Intel SDM volume 4, MSR_SMI_COUNT (0x34)",
    mitigation: "change the firmware settings for legacy USB, power capping and correctable memory errors, or use another machine",
    cost: "loss of the firmware functions that use these interrupts",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.processor_flag("hypervisor") {
        return Judgement::not_here("a guest cannot count system management interrupts; audit its host");
    }
    match view.processor_field("vendor_id") {
        Some("GenuineIntel") => {}
        Some(_) => return Judgement::not_here("only Intel processors count system management interrupts"),
        None => return Judgement::unseen("the vendor of the processor is unknown"),
    }
    let reading = |core: &u32| format!("{MSR}{core}/0x34");
    let cores = view.cores();
    let Some(first) = cores.cores().iter().map(reading).find(|name| view.has(name)) else {
        return Judgement::unseen("/dev/cpu/N/msr does not exist: run modprobe msr");
    };
    if view.text(&first).is_none() {
        return view.missing(&first);
    }
    let mut came = Vec::new();
    let mut ever = 0;
    let mut twice = false;
    for core in cores.cores() {
        let Some(before) = view.number(&reading(core)) else { continue };
        ever = ever.max(before);
        let Some(after) = view.number(&format!("{}{LATER}", reading(core))) else { continue };
        twice = true;
        if after > before {
            came.push(format!("{core}: {}", after - before));
        }
    }
    let judged = match (twice, came.is_empty()) {
        (false, _) => Judgement::unseen("the interrupts were counted only once"),
        (true, true) => Judgement::good(),
        (true, false) => {
            Judgement::harmful(format!("interrupts occurred during the audit on cores {}", listed(&came)))
        }
    };
    judged.effective(format!("{ever} since boot"))
}
