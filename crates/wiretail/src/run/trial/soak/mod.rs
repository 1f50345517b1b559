//! A soak: a live measurement of any duration, in constant memory and with a bounded log.
//!
//! Packets are added while the taps are drained ([`Soak::packet`], [`Soak::advance`]). About once a second,
//! [`Soak::tick`] appends the packets' outcomes to `intervals.log` in the trial's directory. [`soak_summary`]
//! computes the result from that log, even if the soak was killed.
//!
//! Read the time *before* draining the taps, subtract the maximum time between a packet's timestamp and its
//! arrival in the ring, and pass the result to `advance`. This guarantees that all packets with earlier
//! timestamps have been added.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wiretail_analysis::soak::live::{INTERVAL_NS, LiveMeasurement, LiveSettings, Tap as Side};
use wiretail_analysis::soak::{LogFacts, SoakTotals, WORST_MAX, percentile_ns};
use wiretail_analysis::stats::counts::Counts;
use wiretail_capture::flow::FlowTable;
use wiretail_capture::interval_log::{LogWriter, read_log};
use wiretail_capture::key::{Keyer, key_rule_text};
use wiretail_capture::read::{Frame, LinkType};
use wiretail_capture::record::Tap;
use wiretail_schema::packet::{FlowRule, KeyRule};
use wiretail_schema::run::interval::{
    INTERVAL_SCHEMA, IntervalRecord, LogLine, SegmentEnd, SegmentStart, TapStart,
};
use wiretail_schema::summary::Analysis;
use wiretail_schema::units::Budget;

/// Name of the log in a trial's directory.
pub const LOG_NAME: &str = "intervals.log";
/// Default window of a soak, in ns. With this window, lost packets are reported 2 s after they were sent, and
/// the packets of the last 2 s are kept in memory.
pub const WINDOW_NS: i64 = 1_000_000_000;
/// The 99th percentile as a fraction, in billionths.
const P99: u64 = 990_000_000;

/// Settings of a soak.
#[derive(Debug, Clone)]
pub struct SoakSettings {
    /// Title for display.
    pub title: String,
    /// Maximum delay of a packet that counts as arrived, in ns; the default is [`WINDOW_NS`].
    pub window_ns: i64,
    /// Duration of the warm-up to exclude, in ns.
    pub trim_ns: i64,
    /// Rule that identifies packets. It is [`KeyRule::Signature`] for the load generator's packets.
    pub key: KeyRule,
    /// Budgets to evaluate.
    pub budgets: Vec<Budget>,
    /// The ingress and the egress tap.
    pub taps: [TapStart; 2],
}

/// Current numbers of a soak, for a progress line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveStats {
    /// Packets with a known outcome.
    pub sent: u64,
    /// Packets that arrived within the window.
    pub matched: u64,
    /// Packets that were sent more than twice the window ago and have not arrived.
    pub lost: u64,
    /// Packets seen at ingress in the last complete second.
    pub rate_pps: u64,
    /// 99th percentile of the delays in the last complete second, in ns; `None` if no packet was matched.
    pub p99_ns_last: Option<i64>,
    /// 99th percentile of all delays, in ns.
    pub p99_ns: Option<i64>,
    /// Largest delay, in ns.
    pub max_ns: Option<i64>,
}

pub struct Soak {
    live: LiveMeasurement,
    taps: [Tap; 2],
    log: LogWriter,
    directory: PathBuf,
    /// Totals logged by this process, for the progress line.
    totals: SoakTotals,
    last: Option<IntervalRecord>,
    now_ns: i64,
}

impl Soak {
    /// Starts a soak whose log is in `directory`, or continues an existing log.
    ///
    /// # Errors
    /// Returns an error if the window or warm-up is invalid, or the log cannot be written or was started with
    /// other settings.
    pub fn create(directory: &Path, settings: &SoakSettings) -> Result<Self> {
        if settings.window_ns <= 0 || settings.trim_ns < 0 {
            bail!("the window of a soak must be longer than 0 s, and its warm-up must not be negative");
        }
        let start = SegmentStart {
            schema: INTERVAL_SCHEMA.to_owned(),
            wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
            title: settings.title.clone(),
            window_ns: settings.window_ns,
            trim_ns: settings.trim_ns,
            key: key_rule_text(&settings.key),
            budgets: settings.budgets.iter().map(ToString::to_string).collect(),
            pre: settings.taps[0].clone(),
            post: settings.taps[1].clone(),
        };
        let path = directory.join(LOG_NAME);
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0) {
            let (before, _) = read_totals(&path)?;
            let same = |start: &SegmentStart| {
                (start.window_ns, start.trim_ns, start.key.clone(), start.budgets.clone())
            };
            if same(before.start()) != same(&start) {
                bail!(
                    "{}: this soak was started with a different window, warm-up, key or list of budgets; continue \
                     it with the original settings, or choose another directory",
                    path.display()
                );
            }
        }
        let mut log = LogWriter::open(&path)?;
        log.append(&LogLine::Segment(Box::new(start.clone())))?;
        let limits_ns = settings.budgets.iter().map(|budget| budget.limit.ns).collect();
        let (window_ns, trim_ns) = (settings.window_ns, settings.trim_ns);
        let live = LiveSettings { window_ns, trim_ns, limits_ns, worst: WORST_MAX };
        let tap = || Tap::new(Keyer::new(&settings.key), FlowTable::new(FlowRule::None));
        Ok(Self {
            live: LiveMeasurement::new(&live),
            taps: [tap(), tap()],
            log,
            directory: directory.to_owned(),
            totals: SoakTotals::new(start),
            last: None,
            now_ns: i64::MIN,
        })
    }

    /// Adds the next packet of a tap (0: ingress, 1: egress): timestamp in ns, length on the wire in bytes,
    /// and captured bytes of the Ethernet frame. Packets of other taps are ignored.
    #[inline]
    pub fn packet(&mut self, tap: u8, ts_ns: i64, wire_len: u32, frame: &[u8]) {
        let side = if tap == 0 { Side::Pre } else { Side::Post };
        let Some(reader) = self.taps.get_mut(usize::from(tap)) else { return };
        let frame = Frame { ts_ns, interface: 0, link: LinkType::Ethernet, wire_len, data: frame };
        match reader.record(&frame) {
            Some(record) => self.live.packet(side, record),
            None => self.live.packet_without_key(side, wire_len),
        }
    }

    /// Adds packets that a tap (0: ingress, 1: egress) reports as lost since the last call.
    pub fn dropped(&mut self, tap: u8, packets: u64) {
        self.live.dropped(if tap == 0 { Side::Pre } else { Side::Post }, packets);
    }

    /// Declares that all packets of both taps with a timestamp before `complete_ns` have been added.
    pub fn advance(&mut self, complete_ns: i64) {
        self.now_ns = self.now_ns.max(complete_ns);
        self.live.advance(complete_ns);
    }

    /// Appends the records of the seconds completed since the last call to the log. Call it after every
    /// [`advance`](Self::advance): it does nothing until a second is complete, and if the process is killed,
    /// the records that were not appended are lost.
    ///
    /// # Errors
    /// Returns an error if the log cannot be written. The log then has a gap for these seconds.
    pub fn tick(&mut self) -> Result<()> {
        for record in self.live.take_closed() {
            append(&mut self.log, &mut self.totals, &mut self.last, record)?;
        }
        Ok(())
    }

    /// Returns the numbers at the last [`tick`](Self::tick). They do not include the time before the soak was
    /// resumed.
    pub fn stats(&self) -> LiveStats {
        let matching = self.totals.matching();
        let last = self.last.as_ref();
        let delays = |record: &IntervalRecord| {
            let buckets = record.delays.iter().map(|&(bucket, packets)| (usize::from(bucket), packets));
            percentile_ns(buckets, P99).map(|ns| ns.clamp(record.min_ns, record.max_ns))
        };
        LiveStats {
            sent: self.totals.sent(),
            matched: matching.matched,
            lost: matching.lost,
            rate_pps: last.map_or(0, |record| record.pre.packets * (1_000_000_000 / INTERVAL_NS) as u64),
            p99_ns_last: last.and_then(delays),
            p99_ns: self.totals.percentile_ns(P99),
            max_ns: self.totals.max_ns(),
        }
    }

    /// Ends the soak, counting packets in flight as lost. Returns the same result as [`soak_summary`].
    ///
    /// # Errors
    /// Returns an error if [`tick`](Self::tick) or [`soak_summary`] fails.
    pub fn finish(mut self) -> Result<(Analysis, Counts)> {
        for record in self.live.finish() {
            append(&mut self.log, &mut self.totals, &mut self.last, record)?;
        }
        self.log.append(&LogLine::End(SegmentEnd { end_ns: self.now_ns }))?;
        drop(self.log);
        soak_summary(&self.directory)
    }
}

fn append(
    log: &mut LogWriter,
    totals: &mut SoakTotals,
    last: &mut Option<IntervalRecord>,
    record: IntervalRecord,
) -> Result<()> {
    let line = LogLine::Interval(Box::new(record));
    log.append(&line)?;
    if let LogLine::Interval(record) = line {
        totals.add(&record);
        *last = Some(*record);
    }
    Ok(())
}

fn read_totals(path: &Path) -> Result<(SoakTotals, LogFacts)> {
    let mut totals: Option<SoakTotals> = None;
    let end = read_log(path, |line| match (line, &mut totals) {
        (LogLine::Segment(start), None) => totals = Some(SoakTotals::new(*start)),
        (LogLine::Segment(_), Some(totals)) => totals.resume(),
        (LogLine::Interval(record), Some(totals)) => totals.add(&record),
        (LogLine::End(_), Some(totals)) => totals.end(),
        // The log's reader has verified that the log starts with a segment.
        (_, None) => {}
    })?;
    let totals = totals.with_context(|| format!("{}: empty", path.display()))?;
    Ok((totals, LogFacts { torn: end.torn, damaged: end.damaged }))
}

/// Returns the time covered by the log in a soak's directory, in ns.
///
/// # Errors
/// Returns an error if there is no log or it cannot be read.
pub fn logged_ns(directory: &Path) -> Result<u64> {
    let mut ns = 0;
    read_log(&directory.join(LOG_NAME), |line| {
        if let LogLine::Interval(record) = line {
            ns += u64::try_from(record.length_ns).unwrap_or(0);
        }
    })?;
    Ok(ns)
}

/// Computes the result of a soak from the log in its directory. The soak may have ended, may have been
/// killed, or may still be running. Also returns the delays, each accurate to 0.1 %, for
/// [`crate::analyze::outputs::write_all`].
///
/// # Errors
/// Returns an error if there is no log, it cannot be read, or it contains no matched packet.
pub fn soak_summary(directory: &Path) -> Result<(Analysis, Counts)> {
    let path = directory.join(LOG_NAME);
    let (totals, facts) = read_totals(&path)?;
    let matching = totals.matching();
    totals.result(facts).with_context(|| {
        format!(
            "{}: no packet was matched ({} lost, {} at egress only, {} later than the window, {} seen at \
             egress before ingress): check that both taps see the load generator's packets and use the same \
             clock",
            path.display(),
            matching.lost,
            matching.extra,
            matching.out_of_window,
            matching.negative
        )
    })
}

#[cfg(test)]
mod tests;
