//! Measures the time per packet of reading a capture: `read_bench FILE [KEY [ROUNDS]]`.
//!
//! Prints the best time over several rounds for three tasks: reading the file with plain `read` calls,
//! decoding its frames, and converting the frames to records with the key rule (default: moonsniff) and
//! five-tuple flows.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use wiretail_capture::{CaptureReader, FlowTable, Frame, Keyer, OpenOptions, RecordReader, parse_key_rule};
use wiretail_schema::packet::FlowRule;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: read_bench FILE [KEY [ROUNDS]]")?;
    let rule = parse_key_rule(&arguments.next().unwrap_or_else(|| "moonsniff".to_owned()), false)?;
    let rounds: u32 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let path = Path::new(&file);

    let copy = best(rounds, || bare_read(path))?;
    let frames = best(rounds, || read_frames(path))?;
    let mut batch = Vec::new();
    let records = best(rounds, || {
        let reader = CaptureReader::open(path, &OpenOptions::default())?;
        let mut reader = RecordReader::new(reader, Keyer::new(&rule), FlowTable::new(FlowRule::FiveTuple));
        let mut count = 0;
        while reader.read_batch(&mut batch)? {
            count += batch.len() as u64;
            batch.clear();
        }
        Ok(count)
    })?;
    for (what, (time, packets)) in [("read()", (copy.0, frames.1)), ("frames", frames), ("records", records)]
    {
        let ns = time.as_nanos() as f64 / packets.max(1) as f64;
        println!("{what:8} {:8.3} ms  {ns:6.2} ns per packet  {packets} packets", time.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn bare_read(path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(total),
            count => total += count as u64,
        }
    }
}

fn read_frames(path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut reader = CaptureReader::open(path, &OpenOptions::default())?;
    let (mut count, mut sum) = (0, 0i64);
    while reader.read(&mut |frame: &Frame<'_>| {
        count += 1;
        sum = sum.wrapping_add(frame.ts_ns);
    })? {}
    std::hint::black_box(sum);
    Ok(count)
}

fn best(
    rounds: u32,
    mut run: impl FnMut() -> Result<u64, Box<dyn Error>>,
) -> Result<(Duration, u64), Box<dyn Error>> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        let count = run()?;
        best = best.min((start.elapsed(), count));
    }
    Ok(best)
}
