//! The cached rule set: Emerging Threats Open as it lies among the test data of suricata-update, which is a
//! part of Suricata's sources. It is old, and that is of no harm: it loads the engine as a full set does, and is
//! the same wherever it is used.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::apt::Apt;
use super::parts::EMERGING_RULES;
use super::progress::Spinner;

/// Where the set is inside the original archive.
const MEMBER: &str = "*/suricata-update/tests/emerging.rules.tar.gz";
/// What is kept beside the rules: their licences.
const LICENCES: &[&str] = &["LICENSE", "BSD-License.txt", "gpl-2.0.txt"];

/// Fetches the set into [`EMERGING_RULES`], with `ORIGIN` beside it.
///
/// # Errors
/// The sources can't be fetched, or have no such set.
pub fn fetch(apt: &Apt) -> Result<()> {
    let archive = apt.original_source("suricata")?;
    let _spinner = Spinner::new("rules out of the sources");
    let rules = Path::new(EMERGING_RULES);
    let folder = rules.parent().unwrap_or(rules);
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let set = folder.join("emerging.rules.tar.gz");
    let inner = tar(&["--extract", "--xz", "--to-stdout", "--wildcards", "--file"], &archive, &[MEMBER])?;
    write(&set, &inner)?;
    let text = tar(&["--extract", "--gzip", "--to-stdout", "--wildcards", "--file"], &set, &["*.rules"])?;
    let active = count_active(&text);
    if active == 0 {
        bail!("{}: no rules in {MEMBER}", archive.display());
    }
    for licence in LICENCES {
        let name = format!("*/{licence}");
        let read =
            tar(&["--extract", "--gzip", "--to-stdout", "--wildcards", "--file"], &set, &[name.as_str()]);
        if let Ok(text) = read {
            write(&folder.join(licence), &text)?;
        }
    }
    let listing = tar(&["--list", "--verbose", "--full-time", "--utc", "--gzip", "--file"], &set, &[])?;
    let origin = format!(
        "Emerging Threats Open, {active} active rules of {}, all *.rules files in one.\n\
         From {MEMBER} in {}, the original archive of Debian's source package suricata.\n\
         Licences beside. A current set: suricata-update.\n",
        newest_day(&String::from_utf8_lossy(&listing)).unwrap_or("an unknown day"),
        archive.file_name().unwrap_or_default().to_string_lossy(),
    );
    write(&folder.join("ORIGIN"), origin.as_bytes())?;
    // The rules last, and at once: they are what says that this part is there.
    let partial = folder.join("emerging.rules.partial");
    write(&partial, &text)?;
    fs::rename(&partial, rules).with_context(|| format!("{EMERGING_RULES} can't be written"))?;
    let _ = fs::remove_file(&set);
    let _ = fs::remove_file(&archive);
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("{} can't be written", path.display()))
}

/// What tar prints.
fn tar(options: &[&str], archive: &Path, members: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("tar");
    let output = command.args(options).arg(archive).args(members).stdin(Stdio::null()).output();
    let output = output.context("`tar` can't be started")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        bail!("{}: tar can't read {}: {text}", archive.display(), members.join(" "));
    }
    Ok(output.stdout)
}

/// Rules that are not commented out.
fn count_active(text: &[u8]) -> usize {
    let actions: [&[u8]; 4] = [b"alert ", b"drop ", b"reject ", b"pass "];
    text.split(|byte| *byte == b'\n')
        .filter(|line| actions.iter().any(|action| line.starts_with(action)))
        .count()
}

/// The latest day in tar's listing.
fn newest_day(listing: &str) -> Option<&str> {
    listing.lines().filter_map(|line| line.split_ascii_whitespace().nth(3)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_rules_are_counted() {
        let text =
            b"# alert tcp off\nalert tcp any any -> any any (sid:1;)\n\ndrop ip any\nalerting\npass \n";
        assert_eq!(count_active(text), 3);
    }

    #[test]
    fn the_day_of_a_set_is_that_of_its_newest_file() {
        let listing = "\
drwxr-xr-x root/root         0 2017-03-09 22:05:01 rules/
-rw-r--r-- root/root     15153 2017-03-10 22:05:01 rules/a.rules
";
        assert_eq!(newest_day(listing), Some("2017-03-10"));
        assert_eq!(newest_day(""), None);
    }
}
