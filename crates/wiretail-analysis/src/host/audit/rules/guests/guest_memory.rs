//! guests' memory is of huge pages

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "guest-memory",
    group: RuleGroup::Guests,
    title: "guests' memory is of huge pages",
    why: "An address of a guest is translated twice, through up to 24 entries of page tables; huge pages on the host save most of them, and are never swapped or moved.",
    effect: None,
    source: "libvirt, Domain XML format (memoryBacking: hugepages, locked)",
    mitigation: "<memoryBacking><hugepages/><locked/></memoryBacking> with as many huge pages as the guests have memory",
    cost: "that memory is nobody else's",
    reads: &[MEMINFO],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("no host of virtual machines");
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
        ..=0 => Judgement::improvable("no huge page is in use, so no guest has any"),
        _ => Judgement::good(),
    };
    judged.effective(format!("{} of {total} in use", total.saturating_sub(free)))
}

const MEMINFO: &str = "/proc/meminfo";
