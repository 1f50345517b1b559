//! Implements `wiretail setup`, which lists the installed and missing parts that trials may need, and
//! installs parts.
//!
//! - [`parts`] describes the available parts as data and checks which parts are missing;
//! - [`sources`] reads the host's package sources and adds one entry;
//! - [`apt`] installs packages without starting services or changing the host's apt;
//! - [`rules`] fetches the rule set for Suricata; [`text`] prints tables and plans.

mod apt;
pub mod parts;
mod rules;
mod sources;
mod text;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_host::deploy::vm::{Kernel, fetch_kernel};
use wiretail_host::privileges;

use crate::cli::setup::{PartName, SetupArgs};
use parts::{Fetch, PARTS, Part};
pub use parts::{missing, missing_program};
use sources::Sources;

/// State of a part on this host.
#[derive(Debug)]
struct Status {
    part: &'static Part,
    /// Missing programs and files of the part.
    absent: Vec<&'static str>,
    /// Version of the part's first package.
    version: Option<String>,
}

impl Status {
    fn of(part: &'static Part) -> Self {
        let version = part.packages.first().filter(|_| part.fetch != Some(Fetch::EmergingRules));
        Self {
            part,
            absent: part.absent(Path::new("/")),
            version: version.and_then(|package| apt::installed_version(package)),
        }
    }

    fn is_installed(&self) -> bool {
        self.absent.is_empty()
    }
}

/// Runs `wiretail setup`.
///
/// # Errors
/// Returns an error if root privileges or package sources are missing, or apt fails.
pub fn run(arguments: &SetupArgs) -> Result<ExitCode> {
    let chosen = choose(&arguments.parts);
    let status: Vec<Status> = chosen.into_iter().map(Status::of).collect();
    let mut out = io::stdout().lock();
    if arguments.json {
        let parts: Vec<_> = status.iter().map(text::json).collect();
        serde_json::to_writer_pretty(&mut out, &parts)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.parts.is_empty() {
        text::table(&mut out, &status)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted: Vec<&Status> =
        status.iter().filter(|one| !one.is_installed() && one.part.by_hand.is_empty()).collect();
    let sources = if wanted.is_empty() { None } else { Some(Sources::of(Path::new("/etc"))?) };
    for one in &status {
        text::plan(&mut out, one, sources.as_ref(), &versions(one, sources.as_ref()))?;
    }
    out.flush()?;
    let by_hand = status.iter().any(|one| !one.is_installed() && !one.part.by_hand.is_empty());
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(sources) = &sources {
        let names: Vec<String> = wanted.iter().map(|one| one.part.name.to_string()).collect();
        if !privileges(Path::new("/"))?.root {
            bail!("installing packages needs root; run: sudo wiretail setup {}", names.join(" "));
        }
        if !arguments.yes && !confirmed(&names)? {
            return Ok(ExitCode::from(1));
        }
        install(&wanted, sources)?;
    }
    // Wiretail cannot install a part without a package, so the exit code reports that the part is still
    // missing.
    Ok(if by_hand { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Returns the requested parts in order and without repetitions; all parts if no part was requested.
fn choose(names: &[PartName]) -> Vec<&'static Part> {
    PARTS.iter().filter(|part| names.is_empty() || names.contains(&part.name)).collect()
}

/// Returns the versions that apt would install, for packages that are already in its lists.
fn versions(one: &Status, sources: Option<&Sources>) -> Vec<(String, String)> {
    if one.is_installed() || one.part.packages.is_empty() {
        return Vec::new();
    }
    let suite = sources.filter(|_| one.part.from_extra_suite).map(|sources| sources.suite.as_str());
    apt::candidates(one.part.packages, suite)
}

/// Asks for confirmation on the terminal.
fn confirmed(names: &[String]) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is not a terminal; pass --yes, or --dry-run to see the plan");
    }
    eprint!("\nInstall {}? [y/N] ", names.join(", "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Installs one part after the other. If the installation of a part fails, the other parts are still
/// installed.
fn install(wanted: &[&Status], sources: &Sources) -> Result<()> {
    let apt = apt::Apt::new(sources)?;
    let mut faults = Vec::new();
    for one in wanted {
        if let Err(error) = install_part(&apt, one.part) {
            faults.push(crate::message(&error));
        }
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\nwiretail: "));
    }
    Ok(())
}

fn install_part(apt: &apt::Apt, part: &Part) -> Result<()> {
    apt.install(part)?;
    match part.fetch {
        Some(Fetch::EmergingRules) => rules::fetch(apt)?,
        Some(Fetch::Kernels) => {
            for kernel in Kernel::ALL {
                eprintln!("  {}: fetching and unpacking", kernel.package());
                fetch_kernel(kernel, &apt::options())?;
            }
        }
        None => {}
    }
    let absent = part.absent(Path::new("/"));
    if !absent.is_empty() {
        bail!(
            "{}: {} missing although the packages are installed; reinstall them with: sudo apt-get install \
             --reinstall {}",
            part.name,
            absent.join(", "),
            part.packages.join(" ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_parts_once_and_in_order() {
        let names = |names: &[PartName]| choose(names).iter().map(|part| part.name).collect::<Vec<_>>();
        assert_eq!(names(&[PartName::Vm, PartName::Dpdk, PartName::Vm]), [PartName::Dpdk, PartName::Vm]);
        assert_eq!(names(&[]).len(), PARTS.len());
    }
}
