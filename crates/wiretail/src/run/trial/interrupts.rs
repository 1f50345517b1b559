//! Interrupts on the measurement cores during the traffic, from the kernel's counters. Reading the counters
//! takes about 30 µs, so they are read only right before and right after the traffic.

use std::fs;
use std::path::Path;

use wiretail_capture::interrupts::parse_proc_interrupts;
use wiretail_host::sleeps;
use wiretail_schema::run::InterruptDelta;

use crate::run::testbed::cpus::CpuAssignment;

/// Counters of the device's and the load generator's core, before the traffic.
pub struct CoreCounters {
    cores: Vec<u32>,
    interrupts: Reading,
    device: Option<u32>,
    sleeps: Option<u64>,
}

impl CoreCounters {
    /// Reads the counters. Returns no counters if there is no CPU assignment.
    pub fn read(assignment: Option<&CpuAssignment>) -> Self {
        let device = assignment.map(|assignment| assignment.device);
        Self {
            cores: assignment.map_or_else(Vec::new, |cores| vec![cores.device, cores.generator]),
            sleeps: sleeps_of(device),
            device,
            interrupts: Reading::now(),
        }
    }

    /// Returns the interrupts since these counters were read. Also returns how often the device's core went
    /// to sleep, if the kernel counts this.
    pub fn since(&self) -> (Vec<InterruptDelta>, Option<u64>) {
        let interrupts = self.interrupts.until(&Reading::now(), &self.cores);
        let slept = sleeps_of(self.device).zip(self.sleeps).map(|(after, before)| after - before);
        (interrupts, slept)
    }
}

fn sleeps_of(core: Option<u32>) -> Option<u64> {
    sleeps(Path::new("/"), core?)
}

/// Content of `/proc/interrupts`; empty if the file does not exist.
pub struct Reading(String);

impl Reading {
    pub fn now() -> Self {
        Self(fs::read_to_string("/proc/interrupts").unwrap_or_default())
    }

    /// Returns the counters of these cores that have increased, each with its increase. For each core, the
    /// counters are sorted by increase, largest first. The list is empty if the format of the file is
    /// unknown.
    pub fn until(&self, later: &Self, cores: &[u32]) -> Vec<InterruptDelta> {
        let Ok(table) = parse_proc_interrupts(&[(0, &self.0), (1, &later.0)]) else { return Vec::new() };
        let [before, after] = &table.rows[..] else { return Vec::new() };
        let counts = before.counts.iter().zip(&after.counts).map(|(from, to)| to.saturating_sub(*from));
        let mut rose: Vec<InterruptDelta> = table
            .columns
            .iter()
            .zip(counts)
            .filter(|(column, count)| *count > 0 && cores.contains(&column.cpu))
            .map(|(column, count)| InterruptDelta { cpu: column.cpu, name: column.name.clone(), count })
            .collect();
        rose.sort_by_key(|delta| (delta.cpu, std::cmp::Reverse(delta.count)));
        rose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_counters_that_rose_by_core() {
        let text = |timer: u64, calls: u64| {
            Reading(format!(
                "      CPU0 CPU1\nLOC: {timer} {timer} Local timer interrupts\nCAL: 9 {calls} Function call interrupts\n\
                 TLB: 4 4 TLB shootdowns\n"
            ))
        };
        let delta = |name: &str, count| InterruptDelta { cpu: 1, name: name.to_owned(), count };
        let rose = text(5, 1).until(&text(12, 90), &[1, 1]);
        assert_eq!(
            rose,
            [delta("Function call interrupts (CAL)", 89), delta("Local timer interrupts (LOC)", 7)]
        );
        assert_eq!(text(5, 1).until(&text(6, 1), &[0, 1]).len(), 2);
        assert!(Reading(String::new()).until(&text(5, 1), &[0]).is_empty());
        assert!(text(5, 1).until(&text(6, 1), &[]).is_empty());
    }
}
