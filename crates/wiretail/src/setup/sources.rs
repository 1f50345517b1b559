//! The package sources of an installation, derived from those that the host has configured.
//!
//! `wiretail setup` gives apt a file of its own instead of `/etc/apt/sources.list*`, so that a further
//! suite can be used and the host's apt stays as it is. The file has the host's own mirrors, with their
//! keys: the suites of the host's release, and one that [`EXTRA`] names. Mirrors of other suites are left
//! out: one of them that is down is no reason to fail.
//!
//! Formats: sources.list(5), both the one-line style and deb822.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Releases whose own suite has no Suricata 7, with the ending of the suite that has it.
const EXTRA: &[(&str, &str)] = &[("bookworm", "-backports")];

/// One entry: a line of the one-line style, or a stanza of deb822.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `deb`, `deb-src`.
    types: Vec<String>,
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// All other fields, such as Signed-By, as they stand; a value may have several lines.
    options: Vec<(String, String)>,
}

/// The sources for an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// A file in deb822.
    pub text: String,
    /// The suite to take packages from that the release itself does not have.
    pub suite: String,
    /// The mirror of that suite, without a password.
    pub mirror: String,
    /// Whether the host's own sources lack that suite.
    pub added: bool,
}

/// The release's name (VERSION_CODENAME of os-release(5)) under `root`.
///
/// # Errors
/// There is none.
pub fn codename(root: &Path) -> Result<String> {
    let path = root.join("etc/os-release");
    let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    match name.map(|name| name.trim().trim_matches(['"', '\''])) {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => bail!("{}: no VERSION_CODENAME, so the release's package suite is not known", path.display()),
    }
}

/// The sources that apt has configured under `root`, in apt's order.
///
/// # Errors
/// A file can't be read.
pub fn configured(root: &Path) -> Result<Vec<Source>> {
    let mut files = vec![root.join("etc/apt/sources.list")];
    let parts = root.join("etc/apt/sources.list.d");
    let entries = fs::read_dir(&parts).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<PathBuf> = entries.collect();
    entries.sort();
    files.extend(entries);
    let mut sources = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let parse: fn(&str) -> Vec<Source> = match file.extension().and_then(|ending| ending.to_str()) {
            Some("list") => one_line,
            Some("sources") => deb822,
            _ => continue,
        };
        let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
        sources.extend(parse(&text));
    }
    Ok(sources)
}

/// What an installation uses on a host with these `sources` of this release.
///
/// # Errors
/// None of them is the release's main archive.
pub fn derive(sources: &[Source], codename: &str) -> Result<Derived> {
    let ending = EXTRA.iter().find(|(release, _)| *release == codename).map_or("", |(_, ending)| ending);
    let suite = format!("{codename}{ending}");
    let configured = archive(sources, &suite);
    let Some((archive, uri)) = configured.or_else(|| archive(sources, codename)) else {
        bail!(
            "no package source of suite {codename} with component main is configured in /etc/apt/sources.list or \
             /etc/apt/sources.list.d; add one (sources.list(5))"
        );
    };
    let mut stanzas: Vec<Source> = Vec::new();
    for source in sources.iter().filter(|source| source.has_packages()) {
        let of_release = |name: &&String| {
            name.strip_prefix(codename).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/']))
        };
        let is_other = |name: &&String| **name != suite || !source.uris.contains(uri);
        let suites: Vec<String> = source.suites.iter().filter(of_release).filter(is_other).cloned().collect();
        if !suites.is_empty() {
            stanzas.push(Source { types: vec!["deb".into()], suites, ..source.clone() });
        }
    }
    stanzas.push(Source {
        // The source package too: the rule set comes out of it.
        types: vec!["deb".into(), "deb-src".into()],
        uris: vec![uri.clone()],
        suites: vec![suite.clone()],
        components: vec!["main".into()],
        options: archive.options.clone(),
    });
    let text = stanzas.iter().map(Source::stanza).collect::<Vec<_>>().join("\n");
    Ok(Derived { text, suite, mirror: without_password(uri), added: configured.is_none() })
}

/// Debian's own archive of a suite among the sources, and its mirror. Others may use the name of a release for a
/// suite of theirs: Debian's has the release's updates on the same mirror, or its path ends with the
/// distribution's name.
fn archive<'a>(sources: &'a [Source], suite: &str) -> Option<(&'a Source, &'a String)> {
    let updates = format!("{}-updates", suite.split('-').next().unwrap_or(suite));
    let candidates = sources.iter().filter(|source| {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == wanted);
        source.has_packages() && has(&source.suites, suite) && has(&source.components, "main")
    });
    let candidates: Vec<_> = candidates.filter_map(|source| Some((source, source.uris.first()?))).collect();
    let has_updates = |uri: &String| {
        sources.iter().any(|source| source.uris.contains(uri) && source.suites.contains(&updates))
    };
    let named = |uri: &String| uri.trim_end_matches('/').ends_with("/debian");
    let best = candidates.iter().find(|(_, uri)| has_updates(uri));
    let best = best.or_else(|| candidates.iter().find(|(_, uri)| named(uri)));
    best.or_else(|| candidates.first()).copied()
}

impl Source {
    fn has_packages(&self) -> bool {
        self.types.iter().any(|kind| kind == "deb") && self.uris.iter().any(|uri| !uri.starts_with("cdrom:"))
    }

    /// The entry as a stanza of deb822.
    fn stanza(&self) -> String {
        let mut text = format!(
            "Types: {}\nURIs: {}\nSuites: {}\n",
            self.types.join(" "),
            self.uris.join(" "),
            self.suites.join(" ")
        );
        if !self.components.is_empty() {
            text += &format!("Components: {}\n", self.components.join(" "));
        }
        for (name, value) in &self.options {
            text += &format!("{name}: {value}\n");
        }
        text
    }
}

/// Parses the one-line style: `deb [name=value,value ...] URI SUITE COMPONENT...`. What is not like that is
/// left out: apt itself complains about it.
fn one_line(text: &str) -> Vec<Source> {
    text.lines().filter_map(one_entry).collect()
}

fn one_entry(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let (kind, rest) = line.split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    // deb822 has its own names for two of them, and spaces where the one-line style has commas.
    let option = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = match name.trim_end_matches(['+', '-']) {
            "arch" => "Architectures",
            "lang" => "Languages",
            "target" => "Targets",
            "signed-by" => "Signed-By",
            other => other,
        };
        Some((name.to_owned(), value.replace(',', " ")))
    };
    let mut words = rest.split_ascii_whitespace().map(str::to_owned);
    Some(Source {
        types: vec![kind.to_owned()],
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        options: options.split_ascii_whitespace().filter_map(option).collect(),
    })
}

/// Parses deb822: stanzas of `Field: value`, where a line that starts with a space goes on with the value.
fn deb822(text: &str) -> Vec<Source> {
    let mut stanzas: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(fields) = stanzas.last_mut() else { break };
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                *value += "\n";
                *value += line;
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    stanzas.into_iter().filter_map(from_fields).collect()
}

fn from_fields(fields: Vec<(String, String)>) -> Option<Source> {
    let mut source =
        Source { types: vec![], uris: vec![], suites: vec![], components: vec![], options: vec![] };
    for (name, value) in fields {
        let words = || value.split_ascii_whitespace().map(str::to_owned).collect();
        match name.to_ascii_lowercase().as_str() {
            "types" => source.types = words(),
            "uris" => source.uris = words(),
            "suites" => source.suites = words(),
            "components" => source.components = words(),
            "enabled" if value.eq_ignore_ascii_case("no") => return None,
            _ => source.options.push((name, value)),
        }
    }
    (!source.uris.is_empty() && !source.suites.is_empty()).then_some(source)
}

/// A URI without what stands before the `@` of its host.
fn without_password(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# as it was at the time
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://tools.example/apt
Suites: nodistro
Components: main

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no
";

    #[test]
    fn the_suite_is_added_from_the_mirror_that_is_configured() {
        let derived = derive(&deb822(DEB822), "bookworm").expect("an archive");
        let expected = "\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/archive.gpg
";
        assert_eq!(derived.text, expected);
        assert_eq!((derived.suite.as_str(), derived.added), ("bookworm-backports", true));
        assert_eq!(derived.mirror, "http://mirror.example/debian");
        assert_eq!(deb822(&derived.text).len(), 3, "what is written can be read");
    }

    #[test]
    fn one_line_entries_keep_their_key_and_the_archive_is_told_from_others() {
        let text = "\
# deb http://off.example/debian bookworm main
deb [arch=amd64,arm64 signed-by=/k.asc] https://containers.example/linux/debian bookworm main
deb [ signed-by=/usr/share/keyrings/a.gpg ] http://user:secret@mirror.example/pub/ bookworm main contrib # ours
deb-src http://mirror.example/pub/ bookworm main
deb http://user:secret@mirror.example/pub/ bookworm-updates main
deb cdrom:[Debian]/ bookworm main
deb broken
";
        let sources = one_line(text);
        let derived = derive(&sources, "bookworm").expect("an archive");
        assert_eq!(derived.mirror, "http://mirror.example/pub/");
        assert!(derived.text.contains("Architectures: amd64 arm64\nSigned-By: /k.asc\n"), "{}", derived.text);
        let last = derived.text.rsplit("\n\n").next().expect("a stanza");
        assert!(last.contains("URIs: http://user:secret@mirror.example/pub/\nSuites: bookworm-backports\n"));
        assert!(last.ends_with("Signed-By: /usr/share/keyrings/a.gpg\n"), "{last}");
        assert!(!derived.text.contains("cdrom"));
    }

    #[test]
    fn a_suite_that_is_configured_is_used_as_it_is() {
        let text = "\
deb http://mirror.example/debian bookworm main
deb [signed-by=/b.gpg] http://back.example/debian bookworm-backports main non-free
";
        let derived = derive(&one_line(text), "bookworm").expect("an archive");
        assert!(!derived.added);
        assert_eq!(derived.mirror, "http://back.example/debian");
        assert_eq!(derived.text.matches("bookworm-backports").count(), 1, "{}", derived.text);
        assert!(derived.text.contains("Signed-By: /b.gpg"));
        // A release that has it itself.
        let derived = derive(&one_line("deb http://mirror.example/debian trixie main\n"), "trixie")
            .expect("an archive");
        assert_eq!((derived.suite.as_str(), derived.added), ("trixie", false));
        assert_eq!(derived.text.matches("Types:").count(), 1, "{}", derived.text);
    }

    #[test]
    fn read_from_a_tree_in_either_format() {
        let root = tempfile::tempdir().expect("a folder");
        let parts = root.path().join("etc/apt/sources.list.d");
        fs::create_dir_all(&parts).expect("made");
        fs::write(root.path().join("etc/os-release"), "ID=debian\nVERSION_CODENAME=\"bookworm\"\n")
            .expect("made");
        fs::write(parts.join("debian.sources"), DEB822).expect("made");
        fs::write(parts.join("old.list.disabled"), "deb http://x.example bookworm main\n").expect("made");
        fs::write(root.path().join("etc/apt/sources.list"), "deb http://a.example/ bookworm x\n")
            .expect("made");
        let sources = configured(root.path()).expect("read");
        assert_eq!(sources.len(), 4);
        let name = codename(root.path()).expect("a release");
        assert!(derive(&sources, &name).is_ok());
        let error = derive(&sources[..1], &name).expect_err("not Debian's").to_string();
        assert!(error.contains("suite bookworm"), "{error}");
        fs::write(root.path().join("etc/os-release"), "ID=arch\n").expect("made");
        assert!(codename(root.path()).is_err());
    }
}
