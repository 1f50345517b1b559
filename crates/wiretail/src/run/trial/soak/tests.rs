//! Tests of soaks, from frames to documents: completed, killed and resumed soaks, and their memory, speed and
//! log size.

use std::time::Instant;

use super::*;
use crate::analyze::outputs;

const SECOND_NS: i64 = 1_000_000_000;

fn settings() -> SoakSettings {
    let tap = |name: &str| TapStart {
        name: name.to_owned(),
        clock_source: "made up".to_owned(),
        resolution_ns: 1.0,
    };
    SoakSettings {
        title: "a soak".to_owned(),
        window_ns: WINDOW_NS,
        trim_ns: 0,
        key: KeyRule::Signature,
        budgets: vec!["1ms@99.9%".parse().unwrap()],
        taps: [tap("pre"), tap("post")],
    }
}

/// Builds a frame of 70 bytes that contains Ethernet, IPv4 and UDP headers and the load generator's
/// signature.
fn frame(sequence: u64) -> [u8; 70] {
    let mut frame = [0; 70];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&86u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[42..46].copy_from_slice(&(sequence as u32).to_le_bytes());
    frame[46] = 0x55;
    frame[49..57].copy_from_slice(&sequence.to_le_bytes());
    frame
}

/// A constant stream whose delays span more than three octaves. 1 of 1000 packets is lost, and 1 of 5000 is
/// very late.
struct Source {
    rate_pps: i64,
    origin_ns: i64,
    sent: u64,
    arrived: u64,
    at_post: i64,
}

impl Source {
    fn new(rate_pps: i64, origin_ns: i64) -> Self {
        Self { rate_pps, origin_ns, sent: 0, arrived: 0, at_post: i64::MIN }
    }

    fn sent_ns(&self, sequence: u64) -> i64 {
        self.origin_ns + sequence as i64 * SECOND_NS / self.rate_pps
    }

    fn delay_ns(sequence: u64) -> Option<i64> {
        let mixed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let noise = mixed >> 40;
        match sequence % 5000 {
            n if n % 1000 == 999 => None,
            2500 => Some(400_000 + (noise % 900_000) as i64),
            // The distribution is approximately log-uniform from 4 to 32 us.
            _ => Some((4096 << (noise % 3)) + ((mixed >> 20) % (4096 << (noise % 3))) as i64),
        }
    }

    /// Adds all packets that either tap saw before this time.
    fn give(&mut self, soak: &mut Soak, until_ns: i64) {
        while self.sent_ns(self.sent) < until_ns {
            soak.packet(0, self.sent_ns(self.sent), 100, &frame(self.sent));
            self.sent += 1;
        }
        while self.sent_ns(self.arrived) < until_ns {
            let Some(delay_ns) = Self::delay_ns(self.arrived) else {
                self.arrived += 1;
                continue;
            };
            // The queue downstream of the device does not reorder packets.
            let post_ns = self.at_post.max(self.sent_ns(self.arrived) + delay_ns);
            if post_ns >= until_ns {
                break;
            }
            soak.packet(1, post_ns, 100, &frame(self.arrived));
            (self.at_post, self.arrived) = (post_ns, self.arrived + 1);
        }
    }

    /// Runs for some seconds in steps of 50 ms, like a live reader.
    fn run(&mut self, soak: &mut Soak, from_s: i64, to_s: i64) {
        for step in 20 * from_s + 1..=20 * to_s {
            let now_ns = self.origin_ns + step * SECOND_NS / 20;
            self.give(soak, now_ns);
            soak.advance(now_ns);
            soak.tick().unwrap();
        }
    }
}

fn codes(analysis: &Analysis) -> Vec<&str> {
    analysis.summary.findings.iter().map(|finding| finding.code.as_str()).collect()
}

#[test]
fn completed_soak_writes_its_documents() {
    let folder = tempfile::tempdir().unwrap();
    let mut soak = Soak::create(folder.path(), &settings()).unwrap();
    let mut source = Source::new(10_000, 1_700_000_000 * SECOND_NS);
    source.run(&mut soak, 0, 5);
    soak.packet(0, source.origin_ns + 5 * SECOND_NS, 60, &[0; 60]);
    soak.dropped(1, 3);
    let stats = soak.stats();
    assert_eq!((stats.rate_pps, stats.lost), (10_000, 30));
    assert!(stats.p99_ns_last.unwrap() > 4096 && stats.p99_ns <= stats.max_ns);
    let (analysis, delays) = soak.finish().unwrap();
    let summary = &analysis.summary;
    assert_eq!((summary.loss.sent, summary.loss.lost), (50_000, 50 + 50_000 - source.arrived));
    assert_eq!((delays.count(), summary.pre.packets_without_key), (summary.delay.count, 1));
    assert_eq!(summary.delay.resolution, Some(0.001));
    assert_eq!(codes(&analysis), ["capture-dropped", "lost-at-end", "without-key", "soak-limits"]);
    let report = outputs::write_all(folder.path(), &analysis, &delays).unwrap();
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("rounded to within 0.1 %") && page.contains("not kept"));
    assert_eq!(soak_summary(folder.path()).unwrap().0, analysis);
}

#[test]
fn killed_soak_loses_only_last_second_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let mut soak = Soak::create(folder.path(), &settings()).unwrap();
    let mut source = Source::new(10_000, 1_700_000_000 * SECOND_NS);
    source.run(&mut soak, 0, 3);
    let logged = soak.stats();
    drop(soak);
    // The log is cut in the middle of a line.
    let path = folder.path().join(LOG_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"check\":\"12");
    std::fs::write(&path, bytes).unwrap();
    let (analysis, _) = soak_summary(folder.path()).unwrap();
    assert_eq!(analysis.summary.loss.sent, logged.sent);
    assert!(codes(&analysis).contains(&"soak-interrupted"));

    let mut other = settings();
    other.window_ns += 1;
    assert!(Soak::create(folder.path(), &other).is_err());
    let mut soak = Soak::create(folder.path(), &settings()).unwrap();
    let mut source = Source::new(10_000, 1_700_000_010 * SECOND_NS);
    source.run(&mut soak, 0, 2);
    let (analysis, _) = soak.finish().unwrap();
    assert_eq!(analysis.summary.loss.sent, logged.sent + 20_000);
    let codes = codes(&analysis);
    assert!(codes.contains(&"gap") && codes.contains(&"resumed"), "{codes:?}");
    assert!(!codes.contains(&"soak-interrupted") && !codes.contains(&"damaged"), "{codes:?}");
}

#[test]
fn missing_log_error_names_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let error = format!("{:#}", soak_summary(folder.path()).unwrap_err());
    assert!(error.contains(LOG_NAME), "{error}");
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Prints memory, speed and log growth. `WIRETAIL_SOAK_PACKETS=50000000 cargo test --release -p wiretail
/// soak::tests::memory -- --nocapture` runs a longer measurement. The default measurement is short.
#[test]
fn memory_and_log_rate_stay_constant() {
    let packets =
        std::env::var("WIRETAIL_SOAK_PACKETS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let mut soak = Soak::create(folder.path(), &settings()).unwrap();
    let mut source = Source::new(100_000, 1_700_000_000 * SECOND_NS);
    let seconds = (packets / 100_000).max(10);
    let begun = Instant::now();
    source.run(&mut soak, 0, seconds / 10);
    let log_bytes = || std::fs::metadata(folder.path().join(LOG_NAME)).unwrap().len();
    let (early, early_bytes) = (resident(), log_bytes());
    source.run(&mut soak, seconds / 10, seconds);
    let (late, elapsed) = (resident(), begun.elapsed().as_secs_f64());
    let rate = (source.sent + source.arrived) as f64 / elapsed;
    let bytes = (log_bytes() - early_bytes) / (seconds - seconds / 10).max(1) as u64;
    println!(
        "{} packets: {:.1} MB resident after a tenth, {:.1} MB at the end; {:.2} M timestamps per second; \
         {bytes} bytes of log per second",
        source.sent,
        early as f64 / 1e6,
        late as f64 / 1e6,
        rate / 1e6,
    );
    // This limit amounts to one gigabyte in 40 hours.
    assert!(bytes < 6944, "{bytes} bytes of log per second");
    assert_eq!(soak.finish().unwrap().0.summary.loss.sent, seconds as u64 * 100_000);
}
