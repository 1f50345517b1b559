//! `wiretail host noise`: measures how long cores are taken away from a loop that never sleeps, and the
//! causes.

mod causes;
mod injection;
mod peers;
mod text;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use wiretail_analysis::host::noise::{buckets, floor, speed};
use wiretail_dataplane::noise::{NoiseLog, NoisePlan, REST_NS, WATCH_NS};
use wiretail_dataplane::placement::Placement;
use wiretail_host::{Cores, steal_ns};
use wiretail_schema::host::noise::{CoreNoise, LongGap, NOISE_SCHEMA, Noise, PeerNoise};

use self::causes::Tracing;
use crate::analyze::outputs;
use crate::cli::host::NoiseArgs;
use crate::host::noise::injection::Injection;
use crate::run::trial::interrupts::Reading;
use crate::traffic::live::{self, LOOP_THREAD, ProgressLine};

/// Largest number of gaps that are listed individually.
const LONGEST: usize = 20;
/// Smallest number of work samples for which percentiles are computed.
const RUNS_MIN: u64 = 20;
/// Seed of the times at which loops work; each loop derives its own.
const SEED: u64 = 7;
/// How often the end of the measurement is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs `wiretail host noise`.
///
/// # Errors
/// Returns an error if a core or a priority is not available, if a trace needs root, or if a file can't be
/// written.
pub fn run(arguments: &NoiseArgs) -> Result<ExitCode> {
    let stop = live::stop_on_signals()?;
    let noise = measure(arguments, &stop)?;
    if let Some(path) = &arguments.out {
        let mut text = serde_json::to_vec_pretty(&noise)?;
        text.push(b'\n');
        outputs::write_file(path, &text)?;
    }
    if arguments.json {
        live::print_json(&serde_json::to_value(&noise)?)?;
    } else {
        let mut out = BufWriter::new(io::stdout().lock());
        text::write(&mut out, &noise)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(arguments: &NoiseArgs, stop: &AtomicBool) -> Result<Noise> {
    let duration_ns = live::nanoseconds("duration", arguments.duration)?;
    let mut noise = Noise {
        schema: NOISE_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        fifo: arguments.fifo,
        rest_ns: if arguments.fifo.is_some() { REST_NS } else { 0 },
        watch_ns: if arguments.fifo.is_some() { WATCH_NS } else { 0 },
        threshold_ns: live::nanoseconds("threshold", arguments.threshold)?,
        traced: arguments.trace,
        injected: arguments.inject.iter().map(|kind| kind.name().to_owned()).collect(),
        cores: Vec::new(),
        peers: Vec::new(),
        remarks: Vec::new(),
    };
    let others = Cores::read(Path::new("/"))?.usable.without(&arguments.cores);
    if others.is_empty() && arguments.fifo.is_some() {
        bail!(
            "--fifo on all cores leaves none for other tasks, which would wait for the loops; use fewer cores, or omit \
             --fifo"
        );
    }
    if others.is_empty() {
        noise.remarks.push(
            "all cores are measured, so this program's own threads also take time from them".to_owned(),
        );
    }
    live::keep_off(arguments.cores.cores().iter().map(|core| *core as usize));
    let (peers, missing) = if arguments.compare { peers::available() } else { Default::default() };
    noise.remarks.extend(missing);
    let peers_ns =
        peers.iter().map(|_| peers::DURATION_NS).sum::<u64>() * arguments.cores.cores().len() as u64;
    let injection = Injection::of(arguments, &others, duration_ns + peers_ns)?;
    let tracing = arguments
        .trace
        .then(|| Tracing::start(&arguments.cores, others.cores().first().copied()))
        .transpose()?;
    let (logs, interrupts) = thread::scope(|scope| {
        let injectors = injection.as_ref().map(|injection| injection.start(scope)).transpose()?;
        let steal = || arguments.cores.cores().iter().map(|core| steal_ns(Path::new("/"), *core));
        let steal_before: Vec<Option<u64>> = steal().collect();
        let before = Reading::now();
        let logs = watch(arguments, duration_ns, stop)?;
        let interrupts = before.until(&Reading::now(), arguments.cores.cores());
        noise.cores = logs.iter().map(|(core, log)| of_core(*core, log)).collect();
        for (core, (from, to)) in noise.cores.iter_mut().zip(steal_before.into_iter().zip(steal())) {
            core.steal_ns = from.zip(to).map(|(from, to)| to.saturating_sub(from));
        }
        if let Some(tracing) = tracing {
            noise.remarks.extend(tracing.finish(&logs, &mut noise.cores, arguments.fifo.is_some())?);
        }
        noise.peers = compare(arguments, &peers, stop, &mut noise.remarks);
        injectors.map(|injectors| injectors.stop()).transpose()?;
        Ok::<_, anyhow::Error>((logs, interrupts))
    })?;
    for core in &mut noise.cores {
        core.interrupts = interrupts.iter().filter(|delta| delta.cpu == core.core).cloned().collect();
    }
    if logs.iter().any(|(_, log)| log.gaps() > log.kept().len() as u64) {
        noise.remarks.push(
            "only the first of the short gaps were recorded individually; the floor is accurate to 5 %"
                .to_owned(),
        );
    }
    Ok(noise)
}

/// Measures all cores at once, with one thread per core.
fn watch(arguments: &NoiseArgs, duration_ns: u64, stop: &AtomicBool) -> Result<Vec<(u32, NoiseLog)>> {
    let mut progress = ProgressLine::new();
    thread::scope(|scope| {
        let mut loops = Vec::new();
        for core in arguments.cores.cores() {
            let plan = NoisePlan {
                duration_ns,
                threshold_ns: live::nanoseconds("threshold", arguments.threshold)?,
                rests: arguments.fifo.is_some(),
                works: true,
                seed: SEED + u64::from(*core),
            };
            let place = Placement { cpu: Some(*core as usize), fifo: arguments.fifo, lock_memory: false };
            let mut log = NoiseLog::new(plan)?;
            let work = move || {
                place.apply()?;
                log.watch(stop);
                Ok::<_, anyhow::Error>(log)
            };
            let thread = Builder::new().name(LOOP_THREAD.to_owned()).spawn_scoped(scope, work);
            loops.push((*core, thread.context("the loop's thread can't be created")?));
        }
        while loops.iter().any(|(_, thread)| !thread.is_finished()) {
            thread::sleep(LOOK_EVERY);
            progress.show(&|| format!("measuring core {}", arguments.cores));
        }
        progress.clear();
        let join = |(core, thread): (u32, thread::ScopedJoinHandle<'_, Result<NoiseLog>>)| {
            let log = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((core, log))
        };
        loops.into_iter().map(join).collect()
    })
}

/// Summarizes the gaps of a loop, without causes.
fn of_core(core: u32, log: &NoiseLog) -> CoreNoise {
    let lengths = log.lengths();
    let work = &log.work;
    let percentile = |billionths| work.percentile_ns(billionths).unwrap_or(0);
    CoreNoise {
        core,
        watched_ns: log.watched_ns,
        step_ns: log.step_ns(),
        gaps: log.gaps(),
        total_ns: lengths.iter().map(|(ns, count)| ns * count).sum(),
        longest_ns: lengths.last().map_or(0, |(ns, _)| *ns),
        preempted: log.preempted(),
        steal_ns: None,
        histogram: buckets(&lengths),
        longest: longest(log)
            .into_iter()
            .map(|place| &log.kept()[place])
            .map(|gap| LongGap {
                at_ns: gap.start_ns - log.from_ns,
                duration_ns: gap.duration_ns,
                preempted: gap.preempted,
                parts: Vec::new(),
            })
            .collect(),
        floor: floor(&lengths, log.watched_ns),
        causes: None,
        interrupts: Vec::new(),
        speed: (work.total() >= RUNS_MIN)
            .then(|| speed(work.total(), [100_000_000, 500_000_000, 900_000_000].map(percentile))),
    }
}

/// Returns the indices of the longest gaps, in descending order of length.
fn longest(log: &NoiseLog) -> Vec<usize> {
    let mut places: Vec<usize> = (0..log.kept().len()).collect();
    places.sort_by_key(|place| (std::cmp::Reverse(log.kept()[*place].duration_ns), *place));
    places.truncate(LONGEST);
    places
}

/// Runs other measuring programs on the same cores, one after another.
fn compare(
    arguments: &NoiseArgs,
    peers: &[peers::Peer],
    stop: &AtomicBool,
    remarks: &mut Vec<String>,
) -> Vec<PeerNoise> {
    let mut found = Vec::new();
    for (peer, core) in
        peers.iter().flat_map(|peer| arguments.cores.cores().iter().map(move |core| (peer, *core)))
    {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match peer.measure(core, arguments.fifo) {
            Ok(noise) => found.push(noise),
            Err(error) => remarks.push(format!("{error:#}")),
        }
    }
    found
}
