//! apt with sources and lists of Wiretail's own, and without services that start.
//!
//! - The host's apt stays as it is: sources, lists and caches are in [`CACHE`]`/apt` and given on the command
//!   line (apt.conf(5): `Dir::Etc`, `Dir::State::lists`, `Dir::Cache`). What is installed is dpkg's, as ever.
//! - Packages start their services through invoke-rc.d(8) and deb-systemd-invoke(1p). Both ask
//!   `/usr/sbin/policy-rc.d`, but such a file would stay behind if this process were killed. So apt runs in a
//!   mount namespace in which both are `/bin/true`, which ends with apt, whatever happens to us.
//! - apt writes into a log file and not to us: if we are killed, it still comes to its end.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::parts::{CACHE, PARTS, Part};
use super::progress::Spinner;
use super::sources::Derived;

/// How long another apt or dpkg may hold its lock.
const LOCK_TIMEOUT_S: u32 = 600;
/// How often the log is looked at.
const POLL: Duration = Duration::from_millis(100);
/// So many of apt's lines are told with an error.
const LINES_TOLD: usize = 8;

/// Runs apt, "$@", in a mount namespace of its own after both ways to a service have become /bin/true; then those
/// of $SERVICES that are here are kept from starting at boot, by the programs that packages themselves use for it
/// (the first works for packages' scripts only, which dpkg tells by a variable). apt's progress comes on a
/// descriptor of its own: dpkg keeps the one it is given from the packages' scripts.
const QUIETLY: &str = "\
for program in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
	if [ -e \"$program\" ]; then mount --bind /bin/true \"$program\"; fi
done
status=0
\"$@\" 3>&1 || status=$?
for service in $SERVICES; do
	if [ -e \"/lib/systemd/system/$service.service\" ]; then
		DPKG_MAINTSCRIPT_PACKAGE=wiretail deb-systemd-helper disable \"$service.service\"
	fi
	if [ -e \"/etc/init.d/$service\" ]; then update-rc.d \"$service\" disable; fi
done
exit $status";

/// apt with a folder of its own.
pub struct Apt {
    folder: PathBuf,
    suite: String,
    log: PathBuf,
    /// Holds off a second setup: apt's own lock timeout does not cover lists.
    _lock: File,
}

impl Apt {
    /// Makes the folder, writes the sources and fetches their lists.
    ///
    /// # Errors
    /// The folder can't be written, or no list could be fetched.
    pub fn new(sources: &Derived) -> Result<Self> {
        let folder = Path::new(CACHE).join("apt");
        for part in ["lists/partial", "sources.d", "source"] {
            make_folder(&folder.join(part))?;
        }
        let lock = folder.join("lock");
        let file = File::create(&lock).with_context(|| format!("{} can't be written", lock.display()))?;
        if file.try_lock().is_err() {
            eprintln!("  waiting for another wiretail setup to end");
            file.lock().with_context(|| format!("{} can't be locked", lock.display()))?;
        }
        let path = folder.join("sources.d/wiretail.sources");
        // A mirror's address may hold a password.
        let _ = fs::remove_file(&path);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(sources.text.as_bytes()))
            .with_context(|| format!("{} can't be written", path.display()))?;
        let log = folder.join("log");
        let apt = Self { folder, suite: sources.suite.clone(), log, _lock: file };
        let mut command = Command::new("apt-get");
        command.args(own_files(&apt.folder)).args(["-o", "Acquire::Retries=3"]);
        // A mirror that does not answer is an error, not a warning.
        command.args(["-o", "APT::Update::Error-Mode=any", "update"]);
        apt.run(&mut command, "package lists")?;
        Ok(apt)
    }

    /// Installs those `packages` of a part, without what they only recommend; their services are not started.
    /// Nothing is removed but what the part says that it replaces.
    ///
    /// # Errors
    /// As apt's, with what it said.
    pub fn install(&self, part: &Part, packages: &[&str]) -> Result<()> {
        let mut command = Command::new("unshare");
        // Services that are here already may be wanted. A part's packages can bring those of another part.
        let services = PARTS.iter().flat_map(|part| part.services.iter().copied());
        let new: Vec<&str> = services.filter(|service| !is_known(service)).collect();
        command.env("SERVICES", new.join(" "));
        command.args(["--mount", "--propagation", "private", "--", "sh", "-euc", QUIETLY, "sh", "apt-get"]);
        command.args(own_files(&self.folder)).args(["-o", "Acquire::Retries=3", "-o", "APT::Status-Fd=3"]);
        command.args(["-o", "Dpkg::Use-Pty=0", "-o", &format!("DPkg::Lock::Timeout={LOCK_TIMEOUT_S}")]);
        // Configuration files that the user has changed stay theirs.
        command.args(["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]);
        command.args(["install", "--yes", "--no-install-recommends"]);
        if part.replaces.iter().all(|package| installed_version(package).is_none()) {
            command.arg("--no-remove");
        }
        if part.from_extra_suite {
            command.args(["--target-release", &self.suite]);
        }
        self.run(command.args(packages), &format!("{}: {}", part.name, packages.join(" ")))
    }

    /// What other programs of apt need to see the same packages.
    pub fn options(&self) -> Vec<String> {
        own_files(&self.folder)
    }

    /// Fetches the original sources of a package into a folder that is emptied before; returns the archive.
    ///
    /// # Errors
    /// As apt's, with what it said; or there is no such archive.
    pub fn original_source(&self, package: &str) -> Result<PathBuf> {
        let folder = self.folder.join("source");
        let _ = fs::remove_dir_all(&folder);
        make_folder(&folder)?;
        let mut command = Command::new("apt-get");
        // apt's own user may not write here; what arrives is checked against the signed list all the same.
        command.args(own_files(&self.folder)).args(["-o", "APT::Sandbox::User=root"]);
        command.args(["-o", "Acquire::Retries=3", "source", "--download-only", "--tar-only"]);
        command.args(["--target-release", &self.suite, package]).current_dir(&folder);
        self.run(&mut command, &format!("sources of {package}"))?;
        let entries = fs::read_dir(&folder).with_context(|| format!("{} can't be read", folder.display()))?;
        let is_original = |path: &PathBuf| path.to_string_lossy().contains(".orig.tar.");
        let found = entries.flatten().map(|entry| entry.path()).find(is_original);
        found.with_context(|| format!("{package}: its source package has no original archive"))
    }

    /// Runs apt to its end, showing what it does; its output goes to the log.
    fn run(&self, command: &mut Command, what: &str) -> Result<()> {
        let error = || format!("{}: apt's log can't be written", self.log.display());
        let output = File::create(&self.log).with_context(error)?;
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().with_context(error)?)
            .stderr(output)
            .envs([("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C.UTF-8")])
            .spawn()
            .with_context(|| format!("`{name}` can't be started; expected Debian or a relative of it"))?;
        let status = self.follow(child, what)?;
        if status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        bail!("{what}: apt-get failed ({status}). {}\n{}", advice(&log), telling_lines(&log))
    }

    /// Waits for the child and shows its progress.
    fn follow(&self, mut child: Child, what: &str) -> Result<ExitStatus> {
        let mut log =
            File::open(&self.log).with_context(|| format!("{} can't be read", self.log.display()))?;
        let mut spinner = Spinner::new(what);
        let mut rest = Vec::new();
        loop {
            let status = child.try_wait().context("apt-get can't be waited for")?;
            log.read_to_end(&mut rest).with_context(|| format!("{} can't be read", self.log.display()))?;
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if let Some(state) = progress_of(String::from_utf8_lossy(&line).trim_end()) {
                    spinner.show(&state);
                }
            }
            if let Some(status) = status {
                return Ok(status);
            }
            spinner.tick();
            std::thread::sleep(POLL);
        }
    }
}

/// The versions that apt would install, for those packages that it knows: after our own lists where there are
/// some, else after the host's. Changes nothing.
pub fn candidates(packages: &[&str], suite: Option<&str>) -> Vec<(String, String)> {
    let folder = Path::new(CACHE).join("apt");
    let mut command = Command::new("apt-cache");
    let own = folder.join("sources.d/wiretail.sources");
    if File::open(&own).is_ok() {
        command.args(own_files(&folder));
    }
    if let Some(suite) = suite {
        command.args(["-o", &format!("APT::Default-Release={suite}")]);
    }
    command.arg("policy").args(packages).env("LC_ALL", "C").stderr(Stdio::null());
    let text = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    parse_policy(&text.unwrap_or_default())
}

/// Reads `apt-cache policy`: names, and versions of their candidates.
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

/// The version of an installed package.
pub fn installed_version(package: &str) -> Option<String> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status} ${Version}", package])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.strip_prefix("installed ")?.to_owned())
}

/// Whether a service is here, with a unit or a script.
fn is_known(service: &str) -> bool {
    let unit = Path::new("/lib/systemd/system").join(format!("{service}.service"));
    unit.exists() || Path::new("/etc/init.d").join(service).exists()
}

/// The options that keep apt off the host's sources, lists and caches.
fn own_files(folder: &Path) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={}", at("sources.d")),
        format!("Dir::State::lists={}", at("lists")),
        format!("Dir::Cache::pkgcache={}", at("pkgcache.bin")),
        format!("Dir::Cache::srcpkgcache={}", at("srcpkgcache.bin")),
    ];
    options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect()
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("{} can't be made", path.display()))
}

/// What a line of apt's tells a user who waits: `dlstatus:NUMBER:PERCENT:TEXT` and
/// `pmstatus:PACKAGE:PERCENT:TEXT` of APT::Status-Fd, and waiting for a lock.
fn progress_of(line: &str) -> Option<String> {
    if line.starts_with("Waiting for cache lock") || line.contains("Could not get lock") {
        return Some("waiting for another apt to end".to_owned());
    }
    let mut fields = line.splitn(4, ':');
    let (kind, _, percent, text) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let percent: f64 = percent.parse().ok()?;
    matches!(kind, "dlstatus" | "pmstatus").then(|| format!("{percent:>3.0} %  {text}"))
}

/// The lines that tell why, indented: those from dpkg's first error on, as later ones follow from it; the last
/// ones where it told none.
fn telling_lines(log: &str) -> String {
    let is_told =
        |line: &&str| !line.trim().is_empty() && !line.starts_with("pmerror:") && progress_of(line).is_none();
    let lines: Vec<&str> = log.lines().filter(is_told).collect();
    let error = lines.iter().position(|line| line.starts_with("dpkg: error"));
    // What the package's own script said stands above it.
    let first = error.map_or(lines.len().saturating_sub(LINES_TOLD), |error| error.saturating_sub(2));
    let told = lines.iter().skip(first).take(LINES_TOLD);
    told.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// What to do about a failure.
fn advice(log: &str) -> &'static str {
    let has = |text: &str| log.contains(text);
    if has("unshare failed") || has("mount: ") {
        "Services are kept from starting in a mount namespace of its own, which needs CAP_SYS_ADMIN. What it said:"
    } else if has("dpkg was interrupted") {
        "Repair with: sudo dpkg --configure -a. What it said:"
    } else if has("Temporary failure resolving") || has("Failed to fetch") {
        "Is the mirror in /etc/apt reachable? What it said:"
    } else {
        "What it said:"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_apt_are_understood() {
        assert_eq!(
            progress_of("dlstatus:3:27.2727:Retrieving file 3 of 11").as_deref(),
            Some(" 27 %  Retrieving file 3 of 11")
        );
        assert_eq!(
            progress_of("pmstatus:lxc:50.0000:Unpacking lxc (amd64)").as_deref(),
            Some(" 50 %  Unpacking lxc (amd64)")
        );
        assert!(
            progress_of("Waiting for cache lock: Could not get lock /x. It is held by process 7").is_some()
        );
        assert_eq!(progress_of("Selecting previously unselected package a:b:c:d."), None);
        let log = "a\npmstatus:lxc:50.0:Unpacking\n\nE: Unable to locate package x\n";
        assert_eq!(telling_lines(log), "    a\n    E: Unable to locate package x");
        let log =
            "Setting up a\n/var/lib/a.postinst: no\ndpkg: error processing a\n b\npmerror:a:1.0:x\nE: dpkg\n";
        assert!(
            telling_lines(log).starts_with("    Setting up a\n    /var/lib/a.postinst: no\n    dpkg: error")
        );
        assert!(telling_lines(log).ends_with(" b\n    E: dpkg"));
        assert!(advice("E: dpkg was interrupted, you must").contains("--configure -a"));
    }

    #[test]
    fn versions_are_read() {
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
}
