//! Rule `guest-memory`: guest memory in huge pages.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "guest-memory",
    group: RuleGroup::Guests,
    title: "guest memory in huge pages",
    why: "A guest address is translated twice, through up to 24 page table entries. Huge pages on the host avoid most of these lookups and are never swapped or moved.",
    effect: None,
    source: "libvirt, Domain XML format (memoryBacking: hugepages, locked)",
    mitigation: "<memoryBacking><hugepages/><locked/></memoryBacking> with enough huge pages for all guest memory",
    cost: "this memory is not available to other programs",
    reads: &[MEMINFO],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("not a host of virtual machines");
    }
    let Some(text) = view.text(MEMINFO) else { return view.missing(MEMINFO) };
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    let (Some(total), Some(free)) = (of("HugePages_Total"), of("HugePages_Free")) else {
        return Judgement::not_here("this kernel has no huge pages");
    };
    let judged = match total.saturating_sub(free) {
        ..=0 => Judgement::improvable("no huge page is in use, so no guest uses huge pages"),
        _ => Judgement::good(),
    };
    judged.effective(format!("{} of {total} in use", total.saturating_sub(free)))
}

const MEMINFO: &str = "/proc/meminfo";
