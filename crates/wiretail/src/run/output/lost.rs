//! Lists a segment's lost packets, and checks whether a filter dropped exactly the marked packets.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use wiretail_analysis::matching::{Observer, Outcome};
use wiretail_dataplane::generator::marks::Marks;
use wiretail_schema::experiment::{Directions, DutKind, RuleSet, Trial};
use wiretail_schema::run::calibration::Filtering;
use wiretail_schema::summary::Summary;

use crate::analyze::outputs;
use crate::run::testbed::traffic;

/// File name of the list, in the directory of a segment that lost packets.
pub const LOST_NAME: &str = "lost.csv";
/// Maximum number of listed packets; further packets are only counted.
const NAMED_MAX: usize = 100_000;
/// Key rule whose keys are the load generator's packet numbers.
const NUMBERED: &str = "moonsniff";

pub struct LostList {
    marks: Option<Marks>,
    streams: u64,
    /// Lost packets, each with its position at the ingress tap, its key and its ingress timestamp in ns.
    named: Vec<(u64, u64, i64)>,
    packets: u64,
    marked: u64,
    marked_lost: u64,
    lost: u64,
}

impl LostList {
    /// Creates an empty list for a trial with this seed.
    ///
    /// # Errors
    /// Returns an error if the trial's packets cannot be marked as configured.
    pub fn new(trial: &Trial, seed: u64) -> Result<Self> {
        let ways = match trial.traffic.directions {
            Directions::OneWay => 1,
            Directions::Both => 2,
        };
        Ok(Self {
            marks: traffic::marks(trial, seed)?,
            streams: u64::from(trial.traffic.streams) * ways,
            named: Vec::new(),
            packets: 0,
            marked: 0,
            marked_lost: 0,
            lost: 0,
        })
    }

    fn is_marked(&self, number: u64) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.is_marked(number))
    }

    /// Writes the list if packets were lost. Returns a note if the list is incomplete.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, folder: &Path, summary: &Summary) -> Result<Option<String>> {
        if self.lost == 0 {
            return Ok(None);
        }
        outputs::write_file(&folder.join(LOST_NAME), self.text(&summary.key.rule).as_bytes())?;
        let beyond = self.lost - self.named.len() as u64;
        Ok((beyond > 0).then(|| {
            format!("{LOST_NAME} names the first {NAMED_MAX} lost packets; {beyond} more were lost")
        }))
    }

    /// Formats the list as CSV. Replayed packets have no number, so only their position and time are listed.
    fn text(&self, rule: &str) -> String {
        let mut text = "index,packet,stream,pre_ns,marked\n".to_owned();
        for (index, key, pre_ns) in &self.named {
            let _ = if rule == NUMBERED {
                let marked = if self.is_marked(*key) { "yes" } else { "no" };
                writeln!(text, "{index},{key},{},{pre_ns},{marked}", key % self.streams)
            } else {
                writeln!(text, "{index},,,{pre_ns},")
            };
        }
        text
    }

    /// Returns whether the filter dropped the marked packets. Returns `None` if no packet is marked, the
    /// device does not filter by the mark, or the packets are not identified by their number.
    pub fn filtering(&self, trial: &Trial, summary: &Summary) -> Option<Filtering> {
        let filters = match trial.dut.kind {
            DutKind::Suricata | DutKind::Snort3 => matches!(trial.dut.rules, RuleSet::File(_)),
            kind => kind == DutKind::Command,
        };
        let marks = self.marks.as_ref().filter(|_| filters && summary.key.rule == NUMBERED)?;
        Some(Filtering {
            every: marks.every,
            packets: self.packets,
            marked: self.marked,
            marked_lost: self.marked_lost,
            others_lost: self.lost - self.marked_lost,
        })
    }
}

impl Observer for LostList {
    fn outcome(&mut self, outcome: &Outcome) {
        let (sent, lost) = match outcome {
            Outcome::Matched { sent, .. }
            | Outcome::OutOfWindow { sent, .. }
            | Outcome::Negative { sent, .. } => (sent, false),
            Outcome::Lost { sent, .. } => (sent, true),
            _ => return,
        };
        let marked = self.is_marked(sent.key);
        self.packets += 1;
        self.marked += u64::from(marked);
        self.lost += u64::from(lost);
        self.marked_lost += u64::from(marked && lost);
        if lost && self.named.len() < NAMED_MAX {
            self.named.push((sent.index(), sent.key, sent.ts_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_analysis::matching::Sent;
    use wiretail_schema::experiment::Experiment;

    fn trial(more: &str) -> Trial {
        let text = format!(
            "title = \"t\"\nseed = 1\n[dut]\nkind = \"command\"\ncommand = \"true\"\n[traffic]\nrate = \"1 kpps\"\n{more}\n"
        );
        Experiment::parse(&text).unwrap().trials().remove(0)
    }

    fn sent(number: u64) -> Sent {
        Sent { ts_ns: 1000 + number as i64, key: number, sequence: number, duplicates_before: 0, flow: 0 }
    }

    #[test]
    fn lists_lost_packets_and_marks_filtered_ones() {
        let trial = trial("mark-every = 10\nstreams = 2");
        let mut list = LostList::new(&trial, 5).unwrap();
        let marks = traffic::marks(&trial, 5).unwrap().unwrap();
        let marked: Vec<u64> = (0..100).filter(|number| marks.is_marked(*number)).collect();
        for number in 0..100 {
            list.outcome(&match marked.contains(&number) {
                true => Outcome::Lost { sent: sent(number), early: None },
                false => Outcome::Matched { sent: sent(number), delay_ns: 1 },
            });
        }
        assert_eq!((list.packets, list.marked, list.marked_lost, list.lost), (100, 10, 10, 10));
        let text = list.text(NUMBERED);
        let first = marked[0];
        let line = format!("{first},{first},{},{},yes", first % 2, 1000 + first);
        assert_eq!(text.lines().nth(1), Some(line.as_str()));
        assert_eq!(text.lines().count(), 11);
        assert_eq!(
            list.text("payload").lines().nth(1),
            Some(format!("{first},,,{},", 1000 + first).as_str())
        );
    }

    #[test]
    fn list_is_bounded() {
        let mut list = LostList::new(&trial(""), 1).unwrap();
        for number in 0..NAMED_MAX as u64 + 5 {
            list.outcome(&Outcome::Lost { sent: sent(number), early: None });
        }
        assert_eq!((list.named.len(), list.lost, list.marked), (NAMED_MAX, NAMED_MAX as u64 + 5, 0));
    }
}
