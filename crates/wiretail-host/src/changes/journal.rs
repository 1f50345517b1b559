//! The journal of a run. Every change is recorded on disk before it is made.
//!
//! Each run has one file, `DIR/RUN.jsonl`. The first line identifies the run and its owner. Each further line
//! holds a step and the state before it. The line is written and synced *before* the step is applied, so a
//! step whose line has no newline was never started. Steps are undone from the last line to the first.
//! Undoing is idempotent and removes the file once all steps are undone.
//!
//! The file is locked (flock) while its run is alive. The kernel releases the lock when the run exits, even
//! after SIGKILL. The lock and the owner's PID and start time show whether a run is still alive.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::changes::apply::{self, Before};
use crate::error::HostError;
use crate::processes::Owner;
use crate::step::{Plan, Step};

/// Default folder for journals.
pub const JOURNAL_FOLDER: &str = "/run/wiretail";
/// Folder for the journal of permanent changes. This folder is on disk, and `wiretail clean` ignores it.
pub const KEPT_FOLDER: &str = "/var/lib/wiretail/host";
/// Format version of the journal.
pub(crate) const FORMAT: u32 = 1;
pub(crate) const EXTENSION: &str = "jsonl";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub format: u32,
    pub run: String,
    pub owner: Owner,
}

/// Any line after the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// This step is about to be applied.
    Step { step: Step, before: Before },
    /// The previous step was not applied and must not be undone, because the name was in use or memory was
    /// insufficient.
    NotDone,
    /// The previous step was applied. Written only for steps whose effect cannot be recognized on the host.
    Done,
}

/// Result of [`Journal::undo_all`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// Number of steps that were undone.
    pub steps: usize,
    /// Processes that were killed because they were still inside a namespace of the run.
    pub killed: Vec<i32>,
    /// Remarks about anything that was not undone, with the reasons.
    pub remarks: Vec<String>,
}

/// The journal of this run. Dropping it undoes all steps unless it is [kept](Journal::keep). Steps that could
/// not be undone stay in the journal for `wiretail clean`.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    run: String,
    steps: Vec<(Step, Before)>,
    is_kept: bool,
}

impl Journal {
    /// Starts the journal of a run in `folder`, which is created if necessary.
    ///
    /// # Errors
    /// Returns [`HostError::Exists`] if a journal of this name exists, and [`HostError::System`] if the
    /// folder cannot be written.
    pub fn create(folder: &Path, run: &str) -> Result<Self, HostError> {
        let path = folder.join(run).with_extension(EXTENSION);
        let file = create_locked(folder, &path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => HostError::Exists { object: path.display().to_string() },
            _ => HostError::file("start the journal", &path)(error),
        })?;
        let mut journal = Journal { path, file, run: run.into(), steps: Vec::new(), is_kept: false };
        journal.append(&Header { format: FORMAT, run: run.into(), owner: Owner::current() })?;
        // Syncs the folder as well, because it holds the directory entry of the file.
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
        sync(folder).map_err(HostError::file("sync", folder))?;
        // Syncs the parent folders as well, because `folder` may have just been created in them. Errors are
        // ignored, because this process may lack permission to open the parent folders.
        folder.ancestors().skip(1).take(2).for_each(|folder| drop(sync(folder)));
        Ok(journal)
    }

    /// Starts a journal under a unique name: `wt-PID-N`, at most 12 bytes, with the PID in base 36.
    ///
    /// # Errors
    /// Same as [`Journal::create`].
    pub fn create_unique(folder: &Path) -> Result<Self, HostError> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let mut number = 0;
        loop {
            let run = format!("{}{number}", name_prefix(pid.unsigned_abs()));
            match Self::create(folder, &run) {
                Err(HostError::Exists { .. }) if number < 1000 => number += 1,
                other => return other,
            }
        }
    }

    /// Takes over a dead run's journal. The caller must hold the lock on the file.
    pub(crate) fn adopt(path: PathBuf, file: File, run: String, steps: Vec<(Step, Before)>) -> Self {
        Journal { path, file, run, steps, is_kept: false }
    }

    /// Keeps the changes and the journal when this process ends, so that [`clean`](crate::clean) can undo the
    /// steps at any later time.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    /// Name of the run. The names of its namespaces must start with it.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a step, then applies it.
    ///
    /// # Errors
    /// Returns an error if the step cannot be recorded or applied. A step that was applied only in part is
    /// undone with the others.
    pub fn apply(&mut self, step: &Step) -> Result<(), HostError> {
        let _alone = self.alone(step)?;
        let before = self.before_all_runs(apply::look(step)?);
        self.append(&Line::Step { step: step.clone(), before: before.clone() })?;
        self.steps.push((step.clone(), before));
        let (step, before) = &self.steps[self.steps.len() - 1];
        let done = apply::make(step, before);
        let is_undone = |error: &HostError| {
            error.io_kind() == Some(io::ErrorKind::AlreadyExists)
                || matches!(error, HostError::NoHugePages { .. })
        };
        if done.as_ref().is_err_and(is_undone) {
            self.append(&Line::NotDone)?;
            self.steps.pop();
        }
        if let (Ok(()), Some((_, Before::HugePages { is_added, .. }))) = (&done, self.steps.last_mut()) {
            *is_added = true;
            self.append(&Line::Done)?;
        }
        done
    }

    /// Takes the lock that a run must hold while it counts, adds or removes huge pages. Dropping the returned
    /// file releases the lock.
    fn alone(&self, step: &Step) -> Result<Option<File>, HostError> {
        let Some(folder) = self.path.parent().filter(|_| matches!(step, Step::AddHugePages { .. })) else {
            return Ok(None);
        };
        let lock = |folder: &Path| {
            let file = File::open(folder)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(Some(file))
        };
        lock(folder).map_err(HostError::file("lock", folder))
    }

    /// Number of huge pages that other runs have added.
    fn pages_of_others(&self) -> u64 {
        let entries = self.path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        let others = entries.flatten().map(|entry| entry.path()).filter(|path| *path != self.path);
        let steps = others.filter_map(|path| Some(read(&path).ok()??.1)).flatten();
        let pages = steps.filter_map(|(step, before)| match (step, before) {
            (Step::AddHugePages { .. }, Before::HugePages { is_added: false, .. }) => None,
            (Step::AddHugePages { pages }, _) => Some(pages),
            _ => None,
        });
        pages.fold(0, u64::saturating_add)
    }

    /// Returns the state before all runs. The runs share the folder of namespaces: the first run records the
    /// original state and later runs copy it, so that the last run to end can restore it.
    fn before_all_runs(&self, before: Before) -> Before {
        if let Before::HugePages { of_nobody, is_added } = before {
            return Before::HugePages {
                of_nobody: of_nobody.saturating_sub(self.pages_of_others()),
                is_added,
            };
        }
        let Before::Folder(mut state) = before else { return before };
        let others = self.path.parent().and_then(|folder| fs::read_dir(folder).ok());
        for entry in others.into_iter().flatten().flatten() {
            let Ok(Some((_, steps))) = read(&entry.path()) else { continue };
            for (_, before) in steps {
                if let Before::Folder(other) = before {
                    state.existed &= other.existed;
                    state.mounted &= other.mounted;
                }
            }
        }
        Before::Folder(state)
    }

    /// Applies the steps of a plan and stops at the first failure.
    ///
    /// # Errors
    /// Same as [`Journal::apply`].
    pub fn apply_all(&mut self, plan: &Plan) -> Result<(), HostError> {
        plan.steps().iter().try_for_each(|step| self.apply(step))
    }

    /// Undoes all steps in reverse order and removes the journal. If a step cannot be undone, it stays in the
    /// journal and the remaining steps are still undone.
    ///
    /// # Errors
    /// Returns [`HostError::NotUndone`] with all failures.
    pub fn undo_all(&mut self) -> Result<Undone, HostError> {
        let mut undone = Undone::default();
        let mut left = Vec::new();
        let mut faults = Vec::new();
        while let Some((step, before)) = self.steps.pop() {
            let undo = || {
                let alone = self.alone(&step)?;
                let of_others = if alone.is_some() { self.pages_of_others() } else { 0 };
                apply::undo(&step, &before, of_others)
            };
            match undo() {
                Ok(more) => {
                    undone.steps += 1;
                    undone.killed.extend(more.killed);
                    undone.remarks.extend(more.remark);
                }
                Err(error) => {
                    faults.push(error.to_string());
                    left.push((step, before));
                }
            }
        }
        left.reverse();
        self.steps = left;
        if !faults.is_empty() {
            return Err(HostError::NotUndone { journal: self.path.clone(), faults });
        }
        self.remove().map_err(HostError::file("remove the journal", &self.path))?;
        Ok(undone)
    }

    /// Removes the file, and the folder if it is now empty.
    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(folder) = self.path.parent() {
            // Fails if the folder contains other files.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), HostError> {
        let mut bytes =
            serde_json::to_vec(line).map_err(|error| HostError::file("write", &self.path)(error.into()))?;
        bytes.push(b'\n');
        let written = self.file.metadata().and_then(|metadata| {
            let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
            if written.is_err() {
                // The disk may be full. The partial line is removed; otherwise, the next line would be
                // appended to it.
                self.file.set_len(metadata.len())?;
            }
            written
        });
        written.map_err(HostError::file("write", &self.path))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_kept {
            // Drop cannot return an error. If undoing fails, the journal stays and `clean` finds it.
            let _ = self.undo_all();
        }
    }
}

/// Prefix of all names of a run of process `pid`.
pub fn name_prefix(pid: u32) -> String {
    let mut digits = Vec::new();
    let mut rest = pid;
    loop {
        digits.push(char::from_digit(rest % 36, 36).unwrap_or('0'));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    format!("wt-{}-", digits.iter().rev().collect::<String>())
}

/// Creates a file and locks it. Before the file is locked, `clean` may mistake it for the empty file of a
/// dead run. Another run may also remove the folder together with its own journal. In both cases, this
/// function tries again.
fn create_locked(folder: &Path, path: &Path) -> io::Result<File> {
    for _ in 0..100 {
        fs::create_dir_all(folder)?;
        let file = match OpenOptions::new().append(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        if rustix::fs::fstat(&file)?.st_nlink > 0 {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Content of a journal; `None` if the run died before it changed anything.
pub(crate) type Content = Option<(Header, Vec<(Step, Before)>)>;

/// Parses a journal. Bytes after the last newline were never synced and are ignored.
pub(crate) fn read(path: &Path) -> Result<Content, HostError> {
    let text = fs::read(path).map_err(HostError::file("read", path))?;
    let synced = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = text[..synced].split_inclusive(|byte| *byte == b'\n').enumerate();
    let Some((_, first)) = lines.next() else { return Ok(None) };
    let fault = |line: usize, fault: String| HostError::Journal {
        path: path.into(),
        line: line + 1,
        fault,
        expected: FORMAT,
    };
    let header: Header = serde_json::from_slice(first).map_err(|error| fault(0, error.to_string()))?;
    if header.format != FORMAT {
        return Err(fault(0, format!("journal format {}", header.format)));
    }
    let mut steps = Vec::new();
    for (number, line) in lines {
        match serde_json::from_slice(line).map_err(|error| fault(number, error.to_string()))? {
            Line::Step { step, before } => steps.push((step, before)),
            Line::NotDone => drop(steps.pop()),
            Line::Done => {
                if let Some((_, Before::HugePages { is_added, .. })) = steps.last_mut() {
                    *is_added = true;
                }
            }
        }
    }
    Ok(Some((header, steps)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::namespace::FolderState;

    fn write(path: &Path, value: &str) -> Step {
        Step::WriteFile { path: path.into(), value: value.into(), may_refuse: false }
    }

    #[test]
    fn undoes_steps_in_reverse_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("setting");
        fs::write(&setting, "one\n").expect("written");
        let journals = folder.path().join("journals");
        let mut journal = Journal::create(&journals, "wt-1-0").expect("a journal");
        journal.apply(&Step::AddDirectory { path: folder.path().join("set") }).expect("made");
        journal.apply(&write(&setting, "two")).expect("written");
        journal.apply(&write(&setting, "three")).expect("written");
        assert_eq!(fs::read_to_string(&setting).expect("read"), "three\n");
        let (header, steps) = read(journal.path()).expect("read").expect("a header");
        assert_eq!((header.run.as_str(), steps.len()), ("wt-1-0", 3));
        assert_eq!(steps[2].1, Before::Value("two".into()));
        let undone = journal.undo_all().expect("undone");
        assert_eq!(undone.steps, 3);
        assert_eq!(fs::read_to_string(&setting).expect("read"), "one\n");
        assert!(!journals.exists() && !folder.path().join("set").exists());
    }

    #[test]
    fn drop_undoes_all_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("setting");
        fs::write(&setting, "one\n").expect("written");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        journal.apply(&write(&setting, "two")).expect("written");
        drop(journal);
        assert_eq!(fs::read_to_string(&setting).expect("read"), "one\n");
    }

    #[test]
    fn keep_leaves_changes_and_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("setting");
        fs::write(&setting, "one\n").expect("written");
        let mut journal = Journal::create(&folder.path().join("journals"), "applied").expect("a journal");
        journal.apply(&write(&setting, "two")).expect("written");
        let path = journal.path().to_path_buf();
        journal.keep();
        assert_eq!(fs::read_to_string(&setting).expect("read"), "two\n");
        let (_, steps) = read(&path).expect("read").expect("a header");
        assert_eq!(steps[0].1, Before::Value("one".into()));
    }

    #[test]
    fn failed_undo_stays_in_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        journal.apply(&Step::AddDirectory { path: made.clone() }).expect("made");
        fs::write(made.join("not-ours"), "").expect("written");
        let error = journal.undo_all().expect_err("not empty");
        assert!(error.to_string().contains("1 of its steps could not be undone"), "{error}");
        assert!(journal.path().exists());
        fs::remove_file(made.join("not-ours")).expect("removed");
        assert_eq!(journal.undo_all().expect("undone").steps, 1);
        assert!(!journal.path().exists());
    }

    #[test]
    fn existing_objects_are_neither_taken_nor_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let journals = folder.path().join("journals");
        let mut journal = Journal::create_unique(&journals).expect("a journal");
        let step = Step::AddDirectory { path: folder.path().into() };
        assert!(matches!(journal.apply(&step), Err(HostError::Exists { .. })));
        assert!(matches!(Journal::create(&journals, journal.run()), Err(HostError::Exists { .. })));
        assert_eq!(journal.undo_all().expect("undone"), Undone::default());
        assert!(folder.path().exists());
    }

    #[test]
    fn may_refuse_tolerates_missing_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        assert!(journal.apply(&write(&path, "1")).is_err());
        let step = Step::WriteFile { path: path.clone(), value: "1".into(), may_refuse: true };
        journal.apply(&step).expect("skipped");
        assert!(!path.exists());
    }

    #[test]
    fn last_run_restores_shared_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = Journal::create_unique(folder.path()).expect("a journal");
        let second = Journal::create_unique(folder.path()).expect("a journal");
        let state = |existed, mounted| Before::Folder(FolderState { existed, mounted });
        assert_eq!(second.before_all_runs(state(true, true)), state(true, true));
        let line = Line::Step { step: Step::PrepareNamespaces, before: state(true, false) };
        first.append(&line).expect("written");
        assert_eq!(second.before_all_runs(state(true, true)), state(true, false));
        assert_eq!(second.before_all_runs(Before::Nothing), Before::Nothing);
    }

    /// Checks that pages are counted only if they were certainly added, whichever journal line was the last
    /// before a run was killed.
    #[test]
    fn counts_huge_pages_of_other_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let counting = Journal::create(folder.path(), "wt-1-0").expect("a journal");
        let mut adding = Journal::create(folder.path(), "wt-2-0").expect("a journal");
        let before = Before::HugePages { of_nobody: 10, is_added: false };
        let line = Line::Step { step: Step::AddHugePages { pages: 256 }, before: before.clone() };
        adding.append(&line).expect("written");
        assert_eq!(counting.pages_of_others(), 0);
        assert_eq!(counting.before_all_runs(before.clone()), before);
        adding.append(&Line::Done).expect("written");
        assert_eq!((counting.pages_of_others(), adding.pages_of_others()), (256, 0));
        let counted = Before::HugePages { of_nobody: 266, is_added: false };
        assert_eq!(counting.before_all_runs(counted), before);
        let (_, steps) = read(adding.path()).expect("read").expect("a header");
        assert_eq!(steps[0].1, Before::HugePages { of_nobody: 10, is_added: true });
        adding.append(&line).expect("written");
        adding.append(&Line::NotDone).expect("written");
        assert_eq!(counting.pages_of_others(), 256);
        // The lock is exclusive and is released with its file.
        let step = Step::AddHugePages { pages: 1 };
        drop(counting.alone(&step).expect("locked").expect("a lock"));
        drop(counting.alone(&step).expect("once more"));
    }

    #[test]
    fn ignores_torn_lines_and_reports_invalid_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::create(folder.path(), "wt-1-0").expect("a journal");
        journal.apply(&Step::AddDirectory { path: folder.path().join("set") }).expect("made");
        let whole = fs::read(journal.path()).expect("read");
        let copy = folder.path().join("copy.jsonl");
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        for len in 0..=whole.len() {
            fs::write(&copy, &whole[..len]).expect("written");
            let read = read(&copy).expect("no fault").map(|(_, steps)| steps.len());
            let expected = ends.iter().filter(|end| **end < len).count().checked_sub(1);
            assert_eq!(read, expected, "{len} bytes");
        }
        fs::write(&copy, [whole.as_slice(), b"{\"step\":7}\n"].concat()).expect("written");
        let error = read(&copy).expect_err("no step").to_string();
        assert!(error.contains("copy.jsonl:3: "), "{error}");
    }

    #[test]
    fn run_names_have_at_most_12_bytes() {
        assert_eq!(name_prefix(0), "wt-0-");
        assert_eq!(name_prefix(36 * 36 + 10), "wt-10a-");
        assert!(name_prefix(4_194_304).len() + 3 <= 12);
    }
}
