//! /proc/interrupts: who came how often to which core.

use std::collections::BTreeMap;

/// How often interrupts of that name came to each core between two readings, a second. None where there are none of that name.
pub(super) fn per_second(before: &str, after: &str, name: &str, seconds: f64) -> Option<BTreeMap<u32, f64>> {
    let (before, after) = (counts(before, name)?, counts(after, name)?);
    let rates = after.into_iter().map(|(core, count)| {
        let earlier = before.get(&core).copied().unwrap_or(0);
        (core, count.saturating_sub(earlier) as f64 / seconds)
    });
    Some(rates.collect())
}

/// Names of all that are counted for each core: numbers of devices' interrupts, LOC, TLB, ...
pub(super) fn names(text: &str) -> Vec<String> {
    // These two stand there with one number for the machine.
    let names = text.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.filter(|name| name != "ERR" && name != "MIS").collect()
}

fn counts(text: &str, name: &str) -> Option<BTreeMap<u32, u64>> {
    let mut lines = text.lines();
    let cores: Vec<u32> =
        lines.next()?.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let line = lines.find_map(|line| line.split_once(':').filter(|(one, _)| one.trim() == name))?.1;
    let counts = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    Some(cores.into_iter().zip(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_by_core() {
        let text = |loc: u32| {
            format!(
                "           CPU0       CPU2\n  9:   1   2  IO-APIC  9-fasteoi  acpi\nLOC:  100  {loc}  Local timer interrupts\nERR:  0\n"
            )
        };
        let rates = per_second(&text(50), &text(300), "LOC", 0.5).expect("counted");
        assert_eq!(rates, BTreeMap::from([(0, 0.0), (2, 500.0)]));
        assert_eq!(names(&text(1)), ["9", "LOC"]);
        assert_eq!(per_second(&text(1), &text(1), "TLB", 1.0), None);
    }
}
