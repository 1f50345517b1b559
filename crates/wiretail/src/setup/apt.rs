//! Runs apt with Wiretail's own sources and lists, without starting services.
//!
//! - Sources, lists and caches are in [`CACHE`]`/apt`. Options on the command line make apt use them
//!   (apt.conf(5)), so the host's apt is not changed. Installed packages are in dpkg's database, as usual.
//! - Packages start their services through invoke-rc.d(8) and deb-systemd-invoke(1p). A `policy-rc.d` file
//!   would prevent the start, but would remain if this process were killed. Instead, apt runs in a mount
//!   namespace in which both programs are replaced with `/bin/true`. The namespace ends with apt.
//! - apt inherits standard error instead of writing to a pipe, so it finishes even if this process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{Write, stderr};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::parts::{CACHE, PARTS, Part};
use super::sources::Sources;

/// Shell script that runs "$@" in a mount namespace in which both programs that start a service are replaced
/// with /bin/true. The script then disables the services in $SERVICES at boot, with the same programs that
/// packages use. The first of these programs works only in package scripts, which it recognizes by a
/// variable.
const QUIETLY: &str = "\
for program in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
	if [ -e \"$program\" ]; then mount --bind /bin/true \"$program\"; fi
done
status=0
\"$@\" || status=$?
for service in $SERVICES; do
	if [ -e \"/lib/systemd/system/$service.service\" ]; then
		DPKG_MAINTSCRIPT_PACKAGE=wiretail deb-systemd-helper disable \"$service.service\"
	fi
	if [ -e \"/etc/init.d/$service\" ]; then update-rc.d \"$service\" disable; fi
done
exit $status";

/// Runs apt with a separate folder.
pub struct Apt {
    folder: PathBuf,
    suite: String,
    /// Lock against concurrent setups. It is required because apt's own lock timeout does not cover lists.
    _lock: File,
}

impl Apt {
    /// Creates the folder, writes the sources and fetches their lists.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn new(sources: &Sources) -> Result<Self> {
        let folder = folder();
        fs::create_dir_all(folder.join("lists/partial")).context("/var/cache cannot be written")?;
        let lock = File::create(folder.join("lock"))?;
        if lock.try_lock().is_err() {
            eprintln!("  waiting for another wiretail setup to end");
            lock.lock()?;
        }
        write_sources(&folder.join("sources.d"), sources).context("the package sources cannot be written")?;
        let apt = Self { folder, suite: sources.suite.clone(), _lock: lock };
        // If a list is missing, apt reports it on installation.
        if let Err(error) = run(apt.get().arg("update"), "package lists") {
            eprintln!("  {error}; continuing with the existing lists");
        }
        Ok(apt)
    }

    /// Installs the missing packages of a part, without recommended packages and without starting services.
    /// Removes only packages that the part replaces.
    ///
    /// # Errors
    /// Returns an error if apt fails.
    pub fn install(&self, part: &Part) -> Result<()> {
        let mut packages = part.packages.to_vec();
        packages.retain(|package| installed_version(package).is_none());
        if packages.is_empty() {
            return Ok(());
        }
        // Services that already exist may be in use, so only new services are disabled. The services of all
        // parts are checked, because the packages of a part can include packages of another part.
        let services = PARTS.iter().flat_map(|part| part.services.iter().copied());
        let new: Vec<&str> = services.filter(|service| !is_known(service)).collect();
        let get = self.get();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--", "sh", "-euc", QUIETLY, "sh"]);
        command.env("SERVICES", new.join(" ")).arg(get.get_program()).args(get.get_args());
        // If another apt is running, wait for it to end.
        command.args(["-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=600"]);
        // Configuration files that the user has changed are kept.
        command.args(["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]);
        command.args(["install", "--yes", "--no-install-recommends"]);
        if part.replaces.iter().all(|package| installed_version(package).is_none()) {
            command.arg("--no-remove");
        }
        if part.from_extra_suite {
            command.args(["--target-release", &self.suite]);
        }
        run(command.args(&packages), &format!("{}: {}", part.name, packages.join(" ")))
    }

    /// Fetches the original sources of a package; returns the archive.
    ///
    /// # Errors
    /// Returns an error if apt fails or the archive does not exist.
    pub fn original_source(&self, package: &str) -> Result<PathBuf> {
        let folder = self.folder.join("source");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut command = self.get();
        // apt's sandbox user cannot write here. The download is still verified against the signed list.
        command.args(["-o", "APT::Sandbox::User=root", "source", "--download-only", "--tar-only"]);
        command.args(["--target-release", &self.suite, package]).current_dir(&folder);
        run(&mut command, &format!("sources of {package}"))?;
        let mut entries = fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
        let found = entries.find(|path| path.to_string_lossy().contains(".orig.tar."));
        found.with_context(|| format!("{package}: its source package has no original archive"))
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.args(options()).args(["--quiet", "-o", "Acquire::Retries=3"]);
        command
    }
}

fn folder() -> PathBuf {
    Path::new(CACHE).join("apt")
}

/// Returns the options that separate apt from the host's sources, lists and caches.
pub fn options() -> Vec<String> {
    let at = |name: &str| folder().join(name).display().to_string();
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={}", at("sources.d")),
        format!("Dir::State::lists={}", at("lists")),
        format!("Dir::Cache::pkgcache={}", at("pkgcache.bin")),
        format!("Dir::Cache::srcpkgcache={}", at("srcpkgcache.bin")),
    ];
    options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect()
}

/// Creates a folder with links to the host's files, and a file with the added entry.
fn write_sources(folder: &Path, sources: &Sources) -> std::io::Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    for file in &sources.files {
        symlink(file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    let (entry, ending) = &sources.entry;
    let path = folder.join(format!("wiretail-setup.{ending}"));
    // A mirror's URL may contain a password.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(entry.as_bytes())
}

/// Runs apt until it ends. Its output goes to standard error.
fn run(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("  {what}");
    command.stdin(Stdio::null()).stdout(stderr());
    command.envs([("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C.UTF-8")]);
    let status = command.status().context("apt cannot be started")?;
    if status.success() {
        return Ok(());
    }
    // 100 is apt's own exit code.
    let hint = match status.code() {
        Some(code) if code != 100 && command.get_program() == "unshare" => {
            ". It runs in a mount namespace, which keeps services from starting and needs CAP_SYS_ADMIN"
        }
        _ => "",
    };
    bail!("{what}: apt-get failed ({status}); its messages are above{hint}")
}

/// Returns the versions that apt would install, for packages in its lists. Wiretail's lists are used if they
/// exist, otherwise the host's lists. This changes nothing on the host.
pub fn candidates(packages: &[&str], suite: Option<&str>) -> Vec<(String, String)> {
    let mut command = Command::new("apt-cache");
    if folder().join("sources.d").exists() {
        command.args(options());
    }
    if let Some(suite) = suite {
        command.args(["-o", &format!("APT::Default-Release={suite}")]);
    }
    command.arg("policy").args(packages).env("LC_ALL", "C").stderr(Stdio::null());
    let text = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    parse_policy(&text.unwrap_or_default())
}

/// Parses `apt-cache policy`: package names and candidate versions.
fn parse_policy(text: &str) -> Vec<(String, String)> {
    let mut name = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            name = line.trim_end_matches(':');
        } else if let Some(version) = line.strip_prefix("  Candidate: ").filter(|text| *text != "(none)") {
            found.push((name.to_owned(), version.to_owned()));
        }
    }
    found
}

/// Returns the version of an installed package.
pub fn installed_version(package: &str) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    command.args(["--show", "--showformat=${db:Status-Status} ${Version}", package]).stderr(Stdio::null());
    let text = String::from_utf8(command.output().ok()?.stdout).ok()?;
    Some(text.strip_prefix("installed ")?.to_owned())
}

/// Returns whether a service is installed, as a unit or a script.
fn is_known(service: &str) -> bool {
    let unit = Path::new("/lib/systemd/system").join(format!("{service}.service"));
    unit.exists() || Path::new("/etc/init.d").join(service).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_candidate_versions() {
        let text = "\
suricata:
  Installed: (none)
  Candidate: 1:7.0.10-1~bpo12+1
  Version table:
     1:7.0.10-1~bpo12+1 100
        100 http://mirror.example/debian bookworm-backports/main amd64 Packages
gone:
  Installed: (none)
  Candidate: (none)
";
        assert_eq!(parse_policy(text), [("suricata".to_owned(), "1:7.0.10-1~bpo12+1".to_owned())]);
        assert!(parse_policy("").is_empty());
    }

    #[test]
    fn links_host_sources_next_to_added_entry() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("debian.sources");
        fs::write(&file, "Types: deb\n").expect("made");
        let sources = Sources {
            files: vec![file],
            entry: ("deb http://mirror.example/debian bookworm-backports main\n".to_owned(), "list"),
            suite: String::new(),
            mirror: String::new(),
            added: true,
        };
        let folder = root.path().join("sources.d");
        for _ in 0..2 {
            write_sources(&folder, &sources).expect("written, over what was there too");
        }
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("there");
        assert_eq!(read("debian.sources"), "Types: deb\n");
        assert_eq!(read("wiretail-setup.list"), sources.entry.0);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
    }
}
