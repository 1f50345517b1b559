//! Rule `hugepages`: huge pages for packet buffers.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "hugepages",
    group: RuleGroup::Memory,
    title: "huge pages for packet buffers",
    why: "DPDK keeps packets in huge pages. With small pages, most packets cause a TLB miss, and the kernel may move the pages.",
    effect: None,
    source: "DPDK Getting Started Guide for Linux, System Requirements",
    mitigation: "boot with hugepagesz=1G hugepages=4 default_hugepagesz=1G, or sysctl vm.nr_hugepages",
    cost: "this memory is not available to other programs",
    reads: &[
        "/proc/cmdline",
        "/proc/sys/vm/nr_hugepages",
        "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
        "/sys/devices/system/node/node*/cpulist",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(pages) = view.number("/proc/sys/vm/nr_hugepages") else {
        return view.missing("/proc/sys/vm/nr_hugepages");
    };
    let word = view.boot().word("hugepages");
    let each: i64 = view
        .each("/sys/devices/system/node/", "/nr_hugepages")
        .filter_map(|(_, text)| text.trim().parse::<i64>().ok())
        .sum();
    let pages = pages.max(each);
    let asked = view.boot().value("hugepages").and_then(|text| text.parse::<i64>().ok());
    let judged = match asked {
        Some(asked) if pages < asked => {
            Judgement::ineffective(format!("{asked} huge pages were requested, but only {pages} exist"))
        }
        _ if pages == 0 => {
            Judgement::improvable("no huge pages are reserved; DPDK needs them, other applications do not")
        }
        _ => match without(view) {
            Some(node) => {
                Judgement::improvable(format!("memory node {node} of these cores has no huge pages"))
            }
            None => Judgement::good(),
        },
    };
    judged.requested(word).effective(pages.to_string())
}

/// First memory node without huge pages, among the nodes of these cores.
fn without<'a>(view: &'a View<'_>) -> Option<&'a str> {
    let mut nodes = view.each("/sys/devices/system/node/node", "/cpulist");
    let empty = nodes.find(|(node, list)| {
        let here = CoreSet::parse(list.trim()).is_ok_and(|cores| !cores.and(view.cores()).is_empty());
        let place = format!("/sys/devices/system/node/node{node}/hugepages/");
        let mut pages = view.each(&place, "/nr_hugepages").peekable();
        here && pages.peek().is_some() && pages.all(|(_, text)| text.trim() == "0")
    });
    empty.map(|(node, _)| node)
}
