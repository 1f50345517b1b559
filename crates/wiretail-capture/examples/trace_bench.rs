//! Measures the time of reading a kernel trace: `trace_bench [EVENTS [ROUNDS]]`, or `trace_bench DIR [ROUNDS]`
//! for a recorded trace.
//!
//! Without a folder, it generates ten million events of two processors in memory: interrupts, task switches,
//! and sends with and without stacks. Prints the best time over several rounds.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use wiretail_capture::trace::{Event, Trace};

#[allow(dead_code, reason = "the unit tests use the rest")]
#[path = "../src/trace/test_support.rs"]
mod test_support;

use test_support::{Pages, QUEUE, STACK, SWITCH, TIMER_ENTRY, TIMER_EXIT, info};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "10000000".to_owned());
    let rounds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    if Path::new(&first).is_dir() {
        let mut trace = Trace::open(Path::new(&first))?;
        return report(rounds, || Ok(trace.read(count(&mut 0))?.events));
    }
    let [watched, sends] = made_up(first.parse()?);
    let info = info(&[(1, "cpu1.raw", watched.len()), (0, "cpu0.sends.raw", sends.len())]);
    let mut trace = Trace::new(Path::new("made-up"), info)?;
    report(rounds, || Ok(trace.read_from([&*watched, &*sends], count(&mut 0))?.events))
}

/// Uses the events, so that the compiler cannot optimize the reading away.
fn count(sum: &mut u64) -> impl FnMut(&Event) {
    |event| *sum = sum.wrapping_add(event.ts_ns ^ event.args[0])
}

fn report(rounds: u32, mut read: impl FnMut() -> Result<u64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let (mut best, mut events) = (Duration::MAX, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        events = read()?;
        best = best.min(start.elapsed());
    }
    let ns = best.as_nanos() as f64 / events.max(1) as f64;
    println!("{:8.3} ms  {ns:6.2} ns per event  {events} events", best.as_secs_f64() * 1e3);
    Ok(())
}

/// Generates events, a fifth of them on the sender's processor.
fn made_up(events: u64) -> [Vec<u8>; 2] {
    let (mut watched, mut sends) = (Pages::default(), Pages::default());
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut switch = vec![0; 56];
    switch[..6].copy_from_slice(b"worker");
    switch[32..37].copy_from_slice(b"other");
    for round in 0..events / 5 {
        let ns = 1000 + 3000 * round;
        watched.event(ns, TIMER_ENTRY, 9, &236_u32.to_le_bytes());
        watched.event(ns + 300, TIMER_EXIT, 9, &236_u32.to_le_bytes());
        switch[48..52].copy_from_slice(&(100 + round as u32 % 50).to_le_bytes());
        watched.event(ns + 400, SWITCH, 9, &switch);
        watched.event(ns + 500, SWITCH, 9, &switch);
        sends.event(ns + 200, QUEUE, 7, &words(&[1, 0x2004, 0x1000, 5]));
        if round % 2 == 0 {
            sends.event(ns + 210, STACK, 7, &words(&[3, 0x1008, 0x2010, 0x2020 + round % 7]));
        }
    }
    [watched.finish(), sends.finish()]
}
