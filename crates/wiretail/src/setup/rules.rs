//! Fetches and caches a rule set: Emerging Threats Open from the test data of suricata-update, which is part
//! of Suricata's sources. The rule set is old, but its load on the engine is like that of a current rule set,
//! and it is the same on every machine.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::apt::Apt;
use super::parts::EMERGING_RULES;

/// Extracts the rules from the original archive $1 into the current folder, together with their licenses and
/// a note on their origin. The file with the rules is created last and atomically, because its existence
/// means that the part is installed.
const EXTRACT: &str = "\
inside='*/suricata-update/tests/emerging.rules.tar.gz'
tar -xJOf \"$1\" --wildcards \"$inside\" >set.tar.gz
tar -xzf set.tar.gz --wildcards --strip-components=1 '*/LICENSE' '*/BSD-License.txt' '*/gpl-2.0.txt'
tar -xzOf set.tar.gz --wildcards '*.rules' >rules
active=$(grep -cE '^(alert|drop|reject|pass) ' rules)
day=$(tar -tvzf set.tar.gz --full-time --utc | awk '{ print $4 }' | sort | tail -n 1)
cat >ORIGIN <<END
Emerging Threats Open, $active active rules of $day, all *.rules files in one.
From $inside in ${1##*/}, the original archive of Debian's source package suricata.
The licences are in this folder. For a current set, use suricata-update.
END
rm set.tar.gz
mv rules emerging.rules";

/// Fetches the rule set into [`EMERGING_RULES`], with `ORIGIN` in the same folder.
///
/// # Errors
/// Returns an error if the sources cannot be fetched or do not contain the rule set.
pub fn fetch(apt: &Apt) -> Result<()> {
    let archive = apt.original_source("suricata")?;
    let rules = Path::new(EMERGING_RULES);
    extract(&archive, rules.parent().unwrap_or(rules))?;
    let _ = std::fs::remove_file(&archive);
    Ok(())
}

fn extract(archive: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
    let mut command = Command::new("sh");
    command.args(["-euc", EXTRACT, "sh"]).arg(archive).current_dir(folder).stdin(Stdio::null());
    let status = command.status().context("`sh` cannot be started")?;
    if !status.success() {
        bail!("{}: no rules could be extracted", archive.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn extracts_rules_licences_and_origin() {
        let folder = tempfile::tempdir().expect("a folder");
        let set = folder.path().join("suricata/suricata-update/tests");
        fs::create_dir_all(set.join("rules")).expect("made");
        for name in ["LICENSE", "BSD-License.txt", "gpl-2.0.txt"] {
            fs::write(set.join("rules").join(name), name).expect("made");
        }
        let text = "# alert tcp off\nalert tcp any any -> any any (sid:1;)\n\ndrop ip any\nalerting\npass \n";
        fs::write(set.join("rules/a.rules"), text).expect("made");
        let pack = |options: &[&str], at: &Path| {
            let status = Command::new("tar").current_dir(at).args(options).status().expect("tar");
            assert!(status.success());
        };
        pack(&["--mtime=2017-03-10 22:05:01Z", "-czf", "emerging.rules.tar.gz", "rules"], &set);
        pack(&["-cJf", "suricata_7.orig.tar.xz", "suricata"], folder.path());
        let cache = folder.path().join("cache");
        extract(&folder.path().join("suricata_7.orig.tar.xz"), &cache).expect("extracted");
        let read = |name: &str| fs::read_to_string(cache.join(name)).expect("there");
        assert_eq!((read("emerging.rules").as_str(), read("LICENSE").as_str()), (text, "LICENSE"));
        let origin = read("ORIGIN");
        assert!(origin.starts_with("Emerging Threats Open, 3 active rules of 2017-03-10, "), "{origin}");
        assert!(origin.contains(" in suricata_7.orig.tar.xz, "), "{origin}");
        fs::remove_file(cache.join("emerging.rules")).expect("removed");
        fs::write(folder.path().join("other.tar.xz"), "no archive").expect("made");
        assert!(extract(&folder.path().join("other.tar.xz"), &cache).is_err());
        assert!(!cache.join("emerging.rules").exists());
    }
}
