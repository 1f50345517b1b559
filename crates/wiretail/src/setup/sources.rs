//! The package sources of an installation: the host's configured sources and one additional entry.
//!
//! The entry is a copy of the host's entry for Debian's archive, with its key and options. If the host's
//! Debian release does not contain Suricata 7, the entry adds the suite that contains it. The entry also adds
//! source packages, because the rules are taken from a source package. `apt-get indextargets` parses the
//! configuration, so this module need not implement all of sources.list(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Releases without Suricata 7, each with the suffix of the suite that provides it.
const EXTRA: &[(&str, &str)] = &[("bookworm", "-backports")];
const FORMAT: &str = "$(RELEASE)|$(COMPONENT)|$(SITE)|$(SOURCESENTRY)|$(REPO_URI)";

/// The host's sources, and the entry that an installation adds.
#[derive(Debug)]
pub struct Sources {
    /// The host's source files, in apt's order.
    pub files: Vec<PathBuf>,
    /// The added entry, and its file extension: `list` or `sources`.
    pub entry: (String, &'static str),
    /// The suite that provides Suricata 7.
    pub suite: String,
    /// The mirror of that suite, without a password.
    pub mirror: String,
    /// Whether the host's own sources lack that suite.
    pub added: bool,
}

impl Sources {
    /// Returns the sources of a host with its configuration in `etc`, normally `/etc`.
    ///
    /// # Errors
    /// Returns an error if the host is not Debian, or Debian's archive is not among its sources.
    pub fn of(etc: &Path) -> Result<Self> {
        if !etc.join("apt").is_dir() {
            bail!("there is no /etc/apt: parts are Debian packages; install them with your system's tools");
        }
        let release = fs::read_to_string(etc.join("os-release")).context("/etc/os-release cannot be read")?;
        let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let name = name.context("/etc/os-release: no VERSION_CODENAME")?.trim_matches('"');
        let ending = EXTRA.iter().find(|(release, _)| *release == name).map_or("", |(_, ending)| ending);
        let suite = format!("{name}{ending}");

        let apt = etc.join("apt");
        let mut command = Command::new("apt-get");
        command.args(["-o", &format!("Dir::Etc={}", apt.display()), "indextargets", "--no-release-info"]);
        command.args(["--format", FORMAT, "Identifier: Packages"]).stdin(Stdio::null());
        let output = command.output().context("`apt-get` cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let targets: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(5, '|').collect()).collect();
        let has = |suite: &str, uri: &str| targets.iter().any(|one| one[0] == suite && one[4] == uri);
        // Other archives may also name a suite after the release, but they do not have the release's updates.
        let archive = |suite: &str| {
            let mut main = targets.iter().filter(|one| one[..2] == [suite, "main"]);
            let updates = format!("{name}-updates");
            main.clone().find(|one| has(&updates, one[4])).or_else(|| main.next())
        };
        let configured = archive(&suite);
        let Some(&[found, _, mirror, entry, uri]) = configured.or_else(|| archive(name)).map(Vec::as_slice)
        else {
            bail!(
                "no package source of suite {name} with component main is configured in /etc/apt; add one \
                 (sources.list(5))"
            );
        };
        let file = entry.rsplit_once(':').map_or(entry, |(file, _)| file);
        let text = fs::read_to_string(file).with_context(|| format!("{file}: cannot be read"))?;
        let types = if configured.is_some() { "deb-src" } else { "deb deb-src" };
        let entry = copied(&text, (uri, found), types, &suite);
        Ok(Self {
            files: files(&apt)?,
            entry: entry.with_context(|| format!("{file}: no entry with {mirror} and {found}"))?,
            added: configured.is_none(),
            mirror: mirror.to_owned(),
            suite,
        })
    }
}

fn files(apt: &Path) -> Result<Vec<PathBuf>> {
    let parts = apt.join("sources.list.d");
    let entries = fs::read_dir(&parts).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.chain([apt.join("sources.list")]).collect();
    files.retain(|file| file.is_file() && file.extension().is_some_and(|e| e == "list" || e == "sources"));
    files.sort();
    Ok(files)
}

/// Copies the entry of `text` that has this URI and suite. The copy has other types, another suite, and only
/// the component main. Also returns the file extension for the entry's format. An entry is either one line
/// with options in brackets or a stanza of fields.
fn copied(
    text: &str,
    (uri, found): (&str, &str),
    types: &str,
    suite: &str,
) -> Option<(String, &'static str)> {
    let uri = uri.trim_end_matches('/');
    let is_it = |entry: &str| {
        let mut words = entry.split_ascii_whitespace();
        words.clone().any(|word| word.trim_end_matches('/') == uri) && words.any(|word| word == found)
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    if let Some(line) = lines.clone().find(|line| line.trim_start().starts_with("deb") && is_it(line)) {
        let options = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let options = options.map(|(options, _)| format!("[{options}] ")).unwrap_or_default();
        let entry = |kind: &str| format!("{kind} {options}{uri} {suite} main\n");
        return Some((types.split(' ').map(entry).collect(), "list"));
    }
    let text = lines.map(str::trim_end).collect::<Vec<_>>().join("\n");
    let stanza = text.split("\n\n").find(|stanza| is_it(stanza))?;
    let replaced = ["types:", "uris:", "suites:", "components:", "enabled:"];
    let mut entry = format!("Types: {types}\nURIs: {uri}\nSuites: {suite}\nComponents: main\n");
    let mut kept = false;
    for line in stanza.lines() {
        // A line that starts with a space continues the previous field.
        if !line.starts_with([' ', '\t']) {
            kept = !replaced.iter().any(|field| line.to_ascii_lowercase().starts_with(field));
        }
        if kept {
            entry += &format!("{line}\n");
        }
    }
    Some((entry, "sources"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sources of a Debian 12 host with these files in /etc/apt/sources.list.d.
    fn sources(files: &[(&str, &str)]) -> Option<Result<Sources>> {
        if Command::new("apt-get").arg("--version").output().is_err() {
            println!("SKIPPED: apt is not installed");
            return None;
        }
        let root = tempfile::tempdir().expect("a folder");
        let parts = root.path().join("apt/sources.list.d");
        fs::create_dir_all(&parts).expect("made");
        fs::write(root.path().join("os-release"), "VERSION_CODENAME=\"bookworm\"\n").expect("made");
        for (name, text) in files {
            fs::write(parts.join(name), text).expect("made");
        }
        Some(Sources::of(root.path()))
    }

    const STANZAS: &str = "\
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb
# as it was
URIs: http://user:secret@mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
";

    #[test]
    fn adds_the_suite_from_the_configured_mirror_with_its_key() {
        let Some(sources) = sources(&[("debian.sources", STANZAS), ("old.list.disabled", "deb x")]) else {
            return;
        };
        let sources = sources.expect("an archive");
        let expected = "\
Types: deb deb-src
URIs: http://user:secret@mirror.example/debian
Suites: bookworm-backports
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
";
        assert_eq!(sources.entry, (expected.to_owned(), "sources"));
        assert_eq!((sources.suite.as_str(), sources.added), ("bookworm-backports", true));
        assert_eq!(sources.mirror, "http://mirror.example/debian");
        assert_eq!(sources.files.len(), 1);
    }

    #[test]
    fn distinguishes_the_archive_from_other_mirrors() {
        let text = "\
# deb http://off.example/debian bookworm main
deb [arch=amd64 signed-by=/k.asc] https://containers.example/linux/debian bookworm main
deb [ signed-by=/usr/share/keyrings/a.gpg ] http://mirror.example/pub/ bookworm main contrib # ours
deb http://mirror.example/pub/ bookworm-updates main
";
        let Some(found) = sources(&[("a.list", text)]) else { return };
        let entry =
            "[ signed-by=/usr/share/keyrings/a.gpg ] http://mirror.example/pub bookworm-backports main\n";
        assert_eq!(found.expect("an archive").entry, (format!("deb {entry}deb-src {entry}"), "list"));
        let error =
            sources(&[("a.list", "deb http://x.example/ sid main\n")]).expect("as above").expect_err("none");
        assert!(error.to_string().contains("suite bookworm"), "{error}");
    }

    #[test]
    fn uses_a_configured_suite_and_adds_its_source_packages() {
        let back = "deb [signed-by=/b.gpg] http://back.example/debian bookworm-backports main\n";
        let Some(found) = sources(&[("back.list", back), ("debian.sources", STANZAS)]) else { return };
        let found = found.expect("an archive");
        let entry = "deb-src [signed-by=/b.gpg] http://back.example/debian bookworm-backports main\n";
        assert_eq!((found.entry.0.as_str(), found.added), (entry, false));
        assert_eq!(found.mirror, "http://back.example/debian");
    }
}
