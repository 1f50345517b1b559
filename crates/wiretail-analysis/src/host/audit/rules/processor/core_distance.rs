//! Rule `core-distance`: these cores share a memory node and the last-level cache.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "core-distance",
    group: RuleGroup::Processor,
    title: "these cores share a memory node and the last-level cache",
    why: "If one core hands a packet to another, the second core reads the packet from the first core's cache. This takes several times as long if the cores are on two processors, or on two parts of one processor.",
    effect: None,
    source: "Documentation/ABI/stable/sysfs-devices-node (distance) of the kernel; ACPI 6.5, 5.2.17 System Locality Information Table (10 is near)",
    mitigation: "choose cores of one node and one cache (lscpu -e=CPU,NODE,CACHE), at least for a chain of functions",
    cost: "fewer suitable cores",
    reads: &[
        "/sys/devices/system/node/node*/cpulist",
        "/sys/devices/system/node/node*/distance",
        "/sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let cores = view.cores();
    if cores.cores().len() < 2 {
        return Judgement::not_here("only one core");
    }
    let here = |list: &str| CoreSet::parse(list.trim()).is_ok_and(|set| !set.and(cores).is_empty());
    let nodes: Vec<&str> = view
        .each("/sys/devices/system/node/node", "/cpulist")
        .filter(|(node, list)| node.parse::<u32>().is_ok() && here(list))
        .map(|(node, _)| node)
        .collect();
    let mut caches: Vec<CoreSet> = Vec::new();
    for core in cores.cores() {
        let place = format!("/sys/devices/system/cpu/cpu{core}/cache/index3/shared_cpu_list");
        if let Some(shared) = view.core_list(&place).filter(|shared| !caches.contains(shared)) {
            caches.push(shared);
        }
    }
    if nodes.is_empty() && caches.is_empty() {
        return Judgement::not_here("the kernel reports no memory nodes and no shared cache");
    }
    let judged = match (nodes.as_slice(), caches.len()) {
        ([first, second, ..], _) => {
            let far = farthest(view, &nodes).map_or_else(String::new, |far| format!(", distance {far}"));
            Judgement::improvable(format!("these cores are on nodes {first}, {second}{far}"))
        }
        (_, 2..) => Judgement::improvable("these cores have different last-level caches"),
        _ => Judgement::good(),
    };
    judged.effective(format!("{}, {}", count(nodes.len(), "memory node"), count(caches.len(), "cache")))
}

/// Largest distance between two of the nodes; the distance of a node to itself is 10.
fn farthest(view: &View<'_>, nodes: &[&str]) -> Option<u32> {
    let numbers: Vec<usize> = nodes.iter().filter_map(|node| node.parse().ok()).collect();
    let of_node = |node: &&str| view.text(&format!("/sys/devices/system/node/node{node}/distance"));
    let rows = nodes.iter().filter_map(of_node);
    rows.flat_map(|row| {
        let distances: Vec<&str> = row.split_whitespace().collect();
        let each = numbers.iter().filter_map(|node| distances.get(*node)?.parse().ok());
        each.collect::<Vec<u32>>()
    })
    .max()
}

fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what} reported"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}
