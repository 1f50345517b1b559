//! NICs and their settings. A NIC is a network interface that has a device.

use crate::host::audit::{Judgement, View};
use wiretail_schema::host::record::ETHTOOL;

/// Files that identify NICs: network interfaces with a device that has a driver.
pub(crate) const DRIVER: &str = "/sys/class/net/*/device/driver";

pub(crate) fn nics<'a>(view: &'a View<'_>) -> Vec<&'a str> {
    view.each("/sys/class/net/", "/device/driver").map(|(link, _)| link).collect()
}

/// Value of a setting on each NIC that reports it, or the rule's judgement if no NIC does.
pub(crate) fn settings<'a>(view: &'a View<'_>, name: &str) -> Result<Vec<(&'a str, &'a str)>, Judgement> {
    let nics = nics(view);
    let Some(first) = nics.first() else { return Err(no_nic()) };
    let mut unseen = None;
    let mut found = Vec::new();
    for nic in &nics {
        let reading = format!("{ETHTOOL}{nic}");
        match view.text(&reading) {
            Some(text) => found.extend(value(text, name).map(|value| (*nic, value))),
            None if view.has(&reading) => unseen = unseen.or(Some(view.missing(&reading))),
            None => {
                let why = format!("{reading} was not recorded; only a running kernel reports it");
                unseen = unseen.or(Some(Judgement::unseen(why)));
            }
        }
    }
    match unseen {
        Some(judged) => Err(judged),
        None if found.is_empty() => {
            Err(Judgement::not_here(format!("no NIC driver of this host reports {name} ({first}, ...)")))
        }
        None => Ok(found),
    }
}

/// Judgement of a host without NICs.
pub(crate) fn no_nic() -> Judgement {
    Judgement::not_here("no NIC: no network interface has a device")
}

/// Formats a setting per NIC: "eth0 on, eth1 off".
pub(crate) fn shown(all: &[(&str, &str)]) -> String {
    let each: Vec<String> = all.iter().map(|(nic, value)| format!("{nic} {value}")).collect();
    crate::host::audit::rules::listed(&each)
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.split_once(' ').filter(|(one, _)| *one == name)).map(|(_, value)| value)
}
