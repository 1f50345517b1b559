//! Finds and undoes changes left by dead runs (`wiretail clean`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::changes::apply::Before;
use crate::changes::journal::{self, EXTENSION, Header, Journal, Undone};
use crate::error::HostError;
use crate::step::Step;

/// Maximum time to wait for the children of a dead run to exit.
const PATIENCE: Duration = Duration::from_secs(1);

/// State of a run that has a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftoverState {
    /// The run is alive: its journal is locked or its process exists. `clean` does not touch it.
    Living,
    /// The run died without undoing its changes.
    Dead,
    /// The run died before the last reboot. Only files on disk can remain from it.
    BeforeReboot,
    /// The journal cannot be parsed. The value is the reason.
    Unreadable(String),
}

/// A run that has a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub run: String,
    pub journal: PathBuf,
    pub state: LeftoverState,
    /// Steps that the run applied or was about to apply.
    pub steps: Vec<Step>,
}

/// Result of [`clean`].
#[derive(Debug, Default)]
pub struct CleanReport {
    /// Cleaned runs and what was undone; in a dry run, what would be undone.
    pub cleaned: Vec<(Leftover, Undone)>,
    /// Living runs. They were not touched.
    pub living: Vec<Leftover>,
    /// Failures. The journals of these runs are kept.
    pub faults: Vec<HostError>,
}

/// Lists the runs that have a journal in `folder`, whether they are dead or alive. Changes nothing.
///
/// # Errors
/// Returns [`HostError::System`] if the folder exists and cannot be read.
pub fn leftovers(folder: &Path) -> Result<Vec<Leftover>, HostError> {
    let mut found = Vec::new();
    for path in journals(folder)? {
        if let Some((leftover, _)) = examine(&path)? {
            found.push(leftover);
        }
    }
    Ok(found)
}

/// Undoes the changes that dead runs left in `folder`. Living runs are not touched. If `dry_run` is true,
/// changes nothing and reports what would be undone.
///
/// # Errors
/// Returns [`HostError::System`] if the folder exists and cannot be read. If the cleaning of one run fails,
/// the error is added to the report, and the other runs are still cleaned.
pub fn clean(folder: &Path, dry_run: bool) -> Result<CleanReport, HostError> {
    let mut report = CleanReport::default();
    for path in journals(folder)? {
        match clean_one(&path, dry_run) {
            Ok(Some((leftover, _))) if leftover.state == LeftoverState::Living => {
                report.living.push(leftover)
            }
            Ok(Some((leftover, undone))) => report.cleaned.push((leftover, undone)),
            Ok(None) => {}
            Err(error) => report.faults.push(error),
        }
    }
    Ok(report)
}

fn clean_one(path: &Path, dry_run: bool) -> Result<Option<(Leftover, Undone)>, HostError> {
    let Some((leftover, locked)) = examine(path)? else { return Ok(None) };
    let Some(Locked { file, steps }) = locked else {
        return Ok(Some((leftover, Undone::default())));
    };
    if let LeftoverState::Unreadable(_) = leftover.state {
        return match journal::read(path) {
            Err(error) => Err(error),
            Ok(_) => Ok(None),
        };
    }
    if dry_run {
        let undone = Undone { steps: steps.len(), ..Undone::default() };
        return Ok(Some((leftover, undone)));
    }
    let undone = Journal::adopt(path.into(), file, leftover.run.clone(), steps).undo_all()?;
    Ok(Some((leftover, undone)))
}

/// Journal of a dead run, locked by this process so that no other `clean` touches it.
struct Locked {
    file: File,
    steps: Vec<(Step, Before)>,
}

/// Examines one journal. Returns `None` if the file no longer exists.
fn examine(path: &Path) -> Result<Option<(Leftover, Option<Locked>)>, HostError> {
    let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let Ok(file) = File::open(path) else { return Ok(None) };
    let is_free = lock(&file, path);
    if rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_nlink == 0) {
        return Ok(None);
    }
    let mut leftover =
        Leftover { run, journal: path.into(), state: LeftoverState::Living, steps: Vec::new() };
    let (header, steps) = match journal::read(path) {
        Ok(content) => content.unzip(),
        Err(error) => {
            if is_free {
                leftover.state = LeftoverState::Unreadable(error.to_string());
            }
            return Ok(Some((leftover, is_free.then_some(Locked { file, steps: Vec::new() }))));
        }
    };
    let mut steps = steps.unwrap_or_default();
    leftover.state = state(is_free, header.as_ref());
    if leftover.state == LeftoverState::BeforeReboot {
        steps.retain(|(step, _)| survives_reboot(step));
    }
    leftover.steps = steps.iter().map(|(step, _)| step.clone()).collect();
    let dead = leftover.state != LeftoverState::Living;
    Ok(Some((leftover, dead.then_some(Locked { file, steps }))))
}

/// Tries to take the lock and returns whether it succeeded. If the owner is dead but the lock is held, a
/// child of the owner may hold it between fork and exec, so this function waits briefly for the child to
/// exit. An owner in another PID namespace also looks dead, but its lock is not released.
fn lock(file: &File, path: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let owner = journal::read(path).ok().flatten().map(|(header, _)| header.owner);
        if owner.is_none_or(|owner| owner.is_alive(Path::new("/"))) || Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn state(is_free: bool, header: Option<&Header>) -> LeftoverState {
    let root = Path::new("/");
    match header {
        _ if !is_free => LeftoverState::Living,
        // The run died before it wrote its header, so it changed nothing.
        None => LeftoverState::Dead,
        Some(header) if header.owner.is_alive(root) => LeftoverState::Living,
        Some(header) if !header.owner.is_of_this_boot(root) => LeftoverState::BeforeReboot,
        Some(_) => LeftoverState::Dead,
    }
}

/// Whether the result of a step survives a reboot. Links, mounts, settings and cgroups exist only in the
/// kernel and do not survive. Files outside /proc and /sys survive. A name in `/run/netns` is a file, so it
/// survives if `/run` is on a disk.
fn survives_reboot(step: &Step) -> bool {
    match step {
        Step::AddNamespace { .. } | Step::AddFile { .. } => true,
        Step::WriteFile { path, .. } | Step::AddDirectory { path } => {
            !path.starts_with("/proc") && !path.starts_with("/sys")
        }
        _ => false,
    }
}

fn journals(folder: &Path) -> Result<Vec<PathBuf>, HostError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(HostError::file("list the journals in", folder))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
        .collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the journal of a dead run. The journal is copied from that of a run that has not undone its
    /// steps yet.
    fn dead(folder: &Path, edit: impl Fn(String) -> String) -> PathBuf {
        let setting = folder.join("setting");
        fs::write(&setting, "one\n").expect("written");
        let mut journal = Journal::create(&folder.join("living"), "wt-1-0").expect("a journal");
        let step = Step::WriteFile { path: setting.clone(), value: "two".into(), may_refuse: false };
        journal.apply(&step).expect("written");
        let text = fs::read_to_string(journal.path()).expect("read");
        drop(journal);
        fs::write(&setting, "two\n").expect("written");
        let journals = folder.join("dead");
        fs::create_dir_all(&journals).expect("made");
        fs::write(journals.join("wt-1-0.jsonl"), edit(text)).expect("written");
        journals
    }

    fn other_start_time(text: String) -> String {
        let at = text.find("\"start_time\":").expect("a start time") + "\"start_time\":".len();
        format!("{}1{}", &text[..at], &text[at..])
    }

    #[test]
    fn undoes_dead_run_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let journals = dead(folder.path(), other_start_time);
        let setting = folder.path().join("setting");
        let report = clean(&journals, true).expect("looked at");
        assert_eq!(report.cleaned[0].1.steps, 1);
        assert_eq!(fs::read_to_string(&setting).expect("read"), "two\n", "a dry run changes nothing");
        let report = clean(&journals, false).expect("cleaned");
        assert_eq!((report.cleaned.len(), report.faults.len()), (1, 0));
        assert_eq!(fs::read_to_string(&setting).expect("read"), "one\n");
        assert!(clean(&journals, false).expect("nothing").cleaned.is_empty());
    }

    #[test]
    fn living_run_is_not_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        // The run is alive: its process exists, although the journal is not locked.
        let journals = dead(folder.path(), |text| text);
        let report = clean(&journals, false).expect("looked at");
        assert_eq!((report.cleaned.len(), report.living.len()), (0, 1));
        assert_eq!(fs::read_to_string(folder.path().join("setting")).expect("read"), "two\n");
        // The run is alive: its journal is locked.
        let journal = Journal::create_unique(&folder.path().join("locked")).expect("a journal");
        let found = leftovers(journal.path().parent().expect("a folder")).expect("listed");
        assert_eq!((found.len(), &found[0].state), (1, &LeftoverState::Living));
    }

    #[test]
    fn handles_reboot_and_damaged_journals() {
        let folder = tempfile::tempdir().expect("a folder");
        let journals = dead(folder.path(), |text| text.replace("\"boot\":\"", "\"boot\":\"x"));
        assert_eq!(leftovers(&journals).expect("listed")[0].state, LeftoverState::BeforeReboot);
        fs::write(journals.join("wt-1-0.jsonl"), "").expect("written");
        fs::write(journals.join("wt-1-1.jsonl"), "{}\n").expect("written");
        let report = clean(&journals, false).expect("cleaned");
        assert_eq!((report.cleaned.len(), report.faults.len()), (1, 1));
        assert!(report.faults[0].to_string().contains("wt-1-1.jsonl:1: "), "{:?}", report.faults);
        assert!(!journals.join("wt-1-0.jsonl").exists() && journals.join("wt-1-1.jsonl").exists());
    }

    #[test]
    fn files_survive_reboot_and_kernel_settings_do_not() {
        let value = |path: &str| Step::WriteFile { path: path.into(), value: "1".into(), may_refuse: true };
        assert!(!survives_reboot(&value("/proc/sys/vm/stat_interval")));
        assert!(!survives_reboot(&value("/sys/kernel/mm/ksm/run")));
        let path = "/etc/sysctl.d/99-wiretail.conf".into();
        assert!(survives_reboot(&Step::AddFile { path, text: String::new() }));
    }

    #[test]
    fn missing_folder_means_no_leftovers() {
        assert!(leftovers(Path::new("/no/such/folder")).expect("nothing").is_empty());
    }
}
