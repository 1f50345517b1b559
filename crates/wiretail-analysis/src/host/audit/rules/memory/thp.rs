//! Rule `thp`: transparent huge pages.

use crate::host::audit::rules::{Rule, RuleGroup, TLB_SHOOTDOWN};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "thp",
    group: RuleGroup::Memory,
    title: "transparent huge pages",
    why: "A background thread collapses small pages of a process into huge ones. It holds the lock of the address space and causes TLB shootdowns on all cores that run the process.",
    effect: Some(TLB_SHOOTDOWN),
    source: "admin-guide/mm/transhuge.rst, docs.kernel.org",
    mitigation: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or boot with transparent_hugepage=madvise",
    cost: "applications that do not request huge pages have more TLB misses",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(chosen) = view.choice(PATH) else { return view.missing(PATH) };
    let asked = view.boot().word("transparent_hugepage");
    let wanted = view.boot().value("transparent_hugepage");
    let judged = match chosen {
        _ if wanted.is_some_and(|wanted| wanted != chosen) => {
            Judgement::ineffective("the setting has changed since boot")
        }
        "always" => {
            Judgement::harmful("the kernel collapses pages of every process and causes TLB shootdowns")
        }
        _ => Judgement::good(),
    };
    judged.requested(asked).effective(chosen)
}

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
