//! `wiretail host apply`: changes runtime settings, and installs files for the next boot.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use wiretail_analysis::host::audit::Question;
use wiretail_analysis::host::tuning::{files, outputs};
use wiretail_host::{Journal, Plan, Step, leftovers, privileges};
use wiretail_schema::host::plan::{Rules, Setting, SettingState, TakesEffect, Target, TuningPlan};
use wiretail_schema::host::record::HostRecord;
use wiretail_schema::units::cores::CoreSet;

use super::applied::{self, JOURNAL, REFUSED};
use super::plan::{place, question, row, table};
use crate::cli::host::ApplyArgs;
use crate::run::testbed::profile::{below, planned, read, writes};

/// Configuration files of other programs. Each file is installed only if its listed paths exist.
const READERS: &[(&str, &[&str])] = &[
    ("etc/default/grub.d/", &["/etc/default/grub", "/etc/default/grub.d"]),
    ("etc/sysctl.d/", &["/etc/sysctl.d"]),
    ("etc/systemd/", &["/etc/systemd"]),
];

/// Runs `wiretail host apply`.
///
/// # Errors
/// Returns an error without privileges, if a profile is already applied, or if a file can't be written. The
/// host is then unchanged.
pub fn run(arguments: &ApplyArgs) -> Result<ExitCode> {
    let root = arguments.root.as_path();
    let record = read(root, &files(), Duration::ZERO);
    let plan = planned(&record, arguments.wanted.profile.into(), &question(&arguments.wanted))?;
    let steps = steps(root, &plan, &record, arguments.files);
    let mut out = BufWriter::new(io::stdout().lock());
    if arguments.dry_run {
        table(&mut out, &plan, false)?;
        writeln!(out, "  apply would make these changes, and revert would undo them:\n{steps}")?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.allow_system_changes {
        bail!(
            "apply changes this host until `wiretail host revert`; show all changes with --dry-run, then pass \
             --allow-system-changes"
        );
    }
    if root == Path::new("/") && !privileges(root)?.root {
        bail!("applying a profile needs root; run with sudo");
    }
    if !leftovers(&applied::folder(root))?.is_empty() {
        bail!("a profile is already applied, possibly incompletely; run `wiretail host revert` first");
    }
    applied::refuse_runs(root, steps.steps())?;
    let after = carry_out(root, &plan, &steps)?;
    told(&mut out, &plan, &after, &steps, arguments.files)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Applies the steps; returns the plan with the resulting state. An error in any step reverts all of them.
fn carry_out(root: &Path, plan: &TuningPlan, steps: &Plan) -> Result<TuningPlan> {
    let mut journal = Journal::create(&applied::folder(root), JOURNAL)?;
    let done = applied::save(root, plan)
        .and_then(|()| Ok(journal.apply_all(steps)?))
        .and_then(|()| read_again(root, plan))
        .and_then(|after| applied::save(root, &after).map(|()| after));
    match done {
        Ok(after) => {
            journal.keep();
            Ok(after)
        }
        Err(error) => {
            drop(journal);
            applied::forget(root);
            Err(error)
        }
    }
}

/// Reads the host again and marks the settings that the kernel refused.
fn read_again(root: &Path, plan: &TuningPlan) -> Result<TuningPlan> {
    let record = read(root, &files(), Duration::ZERO);
    let mut after = planned(&record, plan.profile, &same_question(plan))?;
    let open = after.settings.iter_mut().filter(|setting| {
        let is_file = matches!(setting.target, Target::File { .. });
        is_file && setting.state == SettingState::Change
    });
    open.for_each(|setting| REFUSED.clone_into(&mut setting.detail));
    Ok(after)
}

/// Returns the question that led to a plan.
pub(super) fn same_question(plan: &TuningPlan) -> Question {
    Question { cores: CoreSet::parse(&plan.cores).ok(), role: Some(plan.role) }
}

/// Returns the changes in the order of the plan.
fn steps(root: &Path, plan: &TuningPlan, record: &HostRecord, with_files: bool) -> Plan {
    let mut steps = Plan::new();
    steps.extend(writes(root, plan, &Rules::AllBut(Vec::new())));
    if with_files {
        for file in outputs::all(plan, place(record)).into_iter().filter(|file| file.is_installed) {
            let reader = READERS.iter().find(|(start, _)| file.path.starts_with(start));
            if reader.is_some_and(|(_, signs)| signs.iter().any(|sign| below(root, sign).exists())) {
                steps.push(Step::AddFile { path: below(root, &file.path), text: file.text });
            }
        }
    }
    steps
}

fn told(
    out: &mut impl Write,
    plan: &TuningPlan,
    after: &TuningPlan,
    steps: &Plan,
    with_files: bool,
) -> Result<()> {
    let refused: Vec<_> = after.settings.iter().filter(|setting| setting.detail == REFUSED).collect();
    let put: Vec<_> = steps.steps().iter().filter(|step| matches!(step, Step::AddFile { .. })).collect();
    let written = steps.steps().len() - put.len() - refused.len();
    writeln!(
        out,
        "  profile {} applied: {written} values changed, {} refused, {} files installed",
        plan.profile.name(),
        refused.len(),
        put.len()
    )?;
    refused.iter().try_for_each(|setting| row(out, setting))?;
    put.iter().try_for_each(|step| writeln!(out, "    {step}"))?;
    let by_hand = |setting: &&Setting| {
        matches!(setting.target, Target::Service { .. } | Target::Nic { .. })
            && setting.state == SettingState::Change
    };
    after.settings.iter().filter(by_hand).try_for_each(|setting| row(out, setting))?;
    let is_open = |setting: &&Setting| {
        setting.takes_effect == TakesEffect::Reboot && setting.state == SettingState::Change
    };
    let words = after.settings.iter().filter(is_open).count();
    let has_grub = put.iter().any(|step| step.object().contains("grub"));
    match (words, has_grub, with_files) {
        (0, ..) => {}
        (_, true, _) => {
            writeln!(out, "  {words} words of the boot command line: run update-grub, then reboot")?
        }
        (_, false, true) => writeln!(
            out,
            "  {words} words of the boot command line: no GRUB here; add boot-line.txt, written by plan \
             --out, to your boot loader"
        )?,
        (_, false, false) => writeln!(
            out,
            "  {words} words of the boot command line are unchanged: --files installs them, plan --out exports them"
        )?,
    }
    writeln!(
        out,
        "  wiretail host verify shows what is in effect; wiretail host revert restores everything"
    )?;
    Ok(())
}
