//! Interrupt rates per core, from /proc/interrupts.

use std::collections::BTreeMap;

use crate::host::audit::{Judgement, View};

/// Two readings, and the time between them.
pub(crate) struct Counters<'a> {
    before: &'a str,
    after: &'a str,
    pub(crate) seconds: f64,
}

impl<'a> Counters<'a> {
    /// Returns both readings of a host.
    ///
    /// # Errors
    ///
    /// Returns the rule's judgement if the interrupts were not counted.
    pub(crate) fn of(view: &View<'a>) -> Result<Self, Judgement> {
        let Some((before, after)) = view.both("/proc/interrupts") else {
            return Err(Judgement::unseen("the interrupt counts were read only once"));
        };
        let Some(seconds) = view.seconds() else {
            return Err(Judgement::unseen("the time between the two readings is unknown"));
        };
        Ok(Self { before, after, seconds })
    }

    /// Interrupts of the given name per second, for each core. `None` if no interrupt has that name.
    pub(crate) fn per_second(&self, name: &str) -> Option<BTreeMap<u32, f64>> {
        let (before, after) = (counts(self.before, name)?, counts(self.after, name)?);
        let rates = after.into_iter().map(|(core, count)| {
            let earlier = before.get(&core).copied().unwrap_or(0);
            (core, count.saturating_sub(earlier) as f64 / self.seconds)
        });
        Some(rates.collect())
    }

    /// Names of all interrupts that are counted per core: numbers of device interrupts, LOC, TLB, ...
    pub(crate) fn names(&self) -> Vec<String> {
        let lines = self.after.lines().skip(1);
        let names = lines.filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
        // These two have a single count for the whole machine.
        names.filter(|name| name != "ERR" && name != "MIS").collect()
    }
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
    fn computes_rates_per_core() {
        let text = |loc: u32| {
            format!(
                "           CPU0       CPU2\n  9:   1   2  IO-APIC  9-fasteoi  acpi\nLOC:  100  {loc}  Local timer interrupts\nERR:  0\n"
            )
        };
        let (before, after) = (text(50), text(300));
        let counters = Counters { before: &before, after: &after, seconds: 0.5 };
        let rates = counters.per_second("LOC").expect("counted");
        assert_eq!(rates, BTreeMap::from([(0, 0.0), (2, 500.0)]));
        assert_eq!(counters.names(), ["9", "LOC"]);
        assert_eq!(counters.per_second("TLB"), None);
    }
}
