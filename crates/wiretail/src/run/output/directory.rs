//! Creates, locks and reopens a run directory, and reads its files.
//!
//! | file | content |
//! |---|---|
//! | `experiment.resolved.toml` | the experiment with the values of all keys |
//! | `manifest.json` | host, trials, counters, validity; rewritten after every trial |
//! | `report.html` | all trials on one page |
//! | `trials/NNNN-NAME/` | captures, and the files that `analyze` writes |

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wiretail_schema::experiment::Experiment;
use wiretail_schema::host::ablation::Ablation;
use wiretail_schema::run::breakdown::TrialCurves;
use wiretail_schema::run::scenario::SegmentResult;
use wiretail_schema::run::{Run, TrialRecord};
use wiretail_schema::search::Searches;
use wiretail_schema::summary::Summary;

use crate::analyze::outputs;
use crate::run::output::breakdown;
use crate::run::trial::soak::{LOG_NAME, logged_ns};

const MANIFEST: &str = "manifest.json";
/// File of a run's searches, in the run directory.
pub const SEARCH_FILE: &str = "search.json";
/// File of a run's ablation, in the run directory.
pub const ABLATION_FILE: &str = "ablation.json";
const EXPERIMENT: &str = "experiment.resolved.toml";

/// A run directory that is locked against other processes while this value exists.
pub struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// Creates the directory of a new run.
    ///
    /// # Errors
    /// Returns an error if the directory holds a run already or cannot be created.
    pub fn create(path: &Path, experiment: &Experiment) -> Result<Self> {
        if path.join(MANIFEST).exists() {
            bail!(
                "{}: this directory holds a run already; choose another --out, or continue that run with --resume",
                path.display()
            );
        }
        fs::create_dir_all(path.join("trials"))
            .with_context(|| format!("{}: cannot be created", path.display()))?;
        let directory = Self::lock(path)?;
        let head =
            format!("# Every key of the experiment; written by wiretail {}\n", env!("CARGO_PKG_VERSION"));
        outputs::write_file(&path.join(EXPERIMENT), (head + &experiment.to_toml()).as_bytes())?;
        Ok(directory)
    }

    /// Opens the directory of an earlier run.
    ///
    /// # Errors
    /// Returns an error if the directory does not exist or is incomplete.
    pub fn open(path: &Path) -> Result<(Self, Experiment, Run)> {
        let directory = Self::lock(path)?;
        let (experiment, run) = read(path)?;
        Ok((directory, experiment, run))
    }

    fn lock(path: &Path) -> Result<Self> {
        let error = || format!("{}: cannot be opened; expected a run directory", path.display());
        let lock = File::open(path).with_context(error)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{}: another process is writing to this run; wait for it or stop it", path.display());
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory for the next attempt at a trial, and the time in ns for which the trial has
    /// already been measured. The files of an earlier attempt are moved aside, unless the trial is a soak
    /// that this attempt continues (`goes_on`).
    ///
    /// # Errors
    /// Returns an error if the file system is full or read-only.
    pub fn for_attempt(&self, record: &TrialRecord, goes_on: bool) -> Result<(PathBuf, u64)> {
        let folder = self.path.join(&record.directory);
        let aside = |number: u32| self.path.join(format!("{}.attempt{number}", record.directory));
        if goes_on && folder.join(LOG_NAME).exists() {
            let measured_ns = logged_ns(&folder)?;
            return Ok((folder, measured_ns));
        }
        // If the earlier attempt was never started, its directory is empty and can be removed.
        if folder.exists() && fs::remove_dir(&folder).is_err() {
            let free = (1..).map(aside).find(|path| !path.exists()).context("no unused name was found")?;
            fs::rename(&folder, &free)
                .with_context(|| format!("{}: cannot be renamed to {}", folder.display(), free.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
        Ok((folder, 0))
    }

    /// Replaces the manifest atomically, so that completed trials survive a failed write.
    ///
    /// # Errors
    /// Returns an error if the file system is full or read-only.
    pub fn write_manifest(&self, run: &Run) -> Result<()> {
        self.write_document(MANIFEST, run)
    }

    /// Writes a document atomically.
    ///
    /// # Errors
    /// Returns an error if the file system is full or read-only.
    pub fn write_document(&self, name: &str, document: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(document)?;
        text.push(b'\n');
        outputs::write_file(&self.path.join(name), &text)
    }
}

/// Reads a document from a run directory; `None` if it does not exist. Error messages use `what` as its name.
///
/// # Errors
/// Returns an error if the file is damaged.
pub fn document<T: DeserializeOwned>(path: &Path, name: &str, what: &str) -> Result<Option<T>> {
    let file = path.join(name);
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{}: not a valid {what} file", file.display()))
        .map(Some)
}

/// Reads the searches of a run directory; `None` if the run has no searches.
///
/// # Errors
/// Returns an error if the file is damaged.
pub fn searches(path: &Path) -> Result<Option<Searches>> {
    document(path, SEARCH_FILE, "search")
}

/// Reads the ablation of a run directory; `None` if the run has no ablation.
///
/// # Errors
/// Returns an error if the file is damaged.
pub fn ablation(path: &Path) -> Result<Option<Ablation>> {
    document(path, ABLATION_FILE, "ablation")
}

/// Reads the experiment and the manifest of a run directory, even while the run is in progress.
///
/// # Errors
/// Returns an error if the directory does not exist or is not a run directory.
pub fn read(path: &Path) -> Result<(Experiment, Run)> {
    let unread = |file: &Path| format!("{}: cannot be read; expected a run directory", file.display());
    let file = path.join(EXPERIMENT);
    let text = fs::read_to_string(&file).with_context(|| unread(&file))?;
    let experiment =
        Experiment::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    let file = path.join(MANIFEST);
    let text = fs::read(&file).with_context(|| unread(&file))?;
    let run =
        serde_json::from_slice(&text).with_context(|| format!("{}: not a run manifest", file.display()))?;
    Ok((experiment, run))
}

/// Reads the results of all evaluated segments.
///
/// # Errors
/// Returns an error if a summary is missing or damaged.
pub fn results(path: &Path, run: &Run) -> Result<Vec<SegmentResult>> {
    let mut results = Vec::new();
    for trial in &run.trials {
        for place in 0..trial.segments.len() {
            if let Some(summary) = summary(path, trial, place)? {
                results.push(SegmentResult { trial: trial.number, segment: place, summary });
            }
        }
    }
    Ok(results)
}

/// Reads the summary of a trial's segment; `None` if the segment was not evaluated.
///
/// # Errors
/// Returns an error if the summary is missing or damaged.
pub fn summary(path: &Path, trial: &TrialRecord, segment: usize) -> Result<Option<Summary>> {
    let Some(segment) = trial.segments.get(segment).filter(|segment| segment.analysed) else {
        return Ok(None);
    };
    let file = path.join(&segment.directory).join("summary.json");
    let text = fs::read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: not a summary", file.display())).map(Some)
}

/// Reads the latency breakdown curves of all trials that have them.
///
/// # Errors
/// Returns an error if a file is missing or damaged.
pub fn curves(path: &Path, run: &Run) -> Result<Vec<TrialCurves>> {
    let with_breakdown = run.trials.iter().filter(|trial| !trial.breakdown.is_empty());
    let read = |trial: &TrialRecord| {
        let file = path.join(&trial.directory).join(breakdown::CURVES);
        let text = fs::read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
        let curves = serde_json::from_slice(&text)
            .with_context(|| format!("{}: not a latency breakdown file", file.display()))?;
        Ok(TrialCurves { trial: trial.number, curves })
    };
    with_breakdown.map(read).collect()
}

/// Returns the default run directory. It is under `runs/`, and its name contains the time and the name of the
/// experiment.
pub fn default_path(experiment: &Path) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let timestamp = wiretail_report::format::utc(now).unwrap_or_default();
    let timestamp = timestamp.trim_end_matches(" UTC").replace(' ', "T").replace(':', "-");
    let name = experiment.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from("runs").join(format!("{timestamp}-{name}"))
}
