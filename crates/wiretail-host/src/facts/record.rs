//! Everything that an audit reads from a host, as a single text file that can be shared with others
//! ([`HostRecord`]).
//!
//! This module changes nothing. Missing files are skipped; unreadable files are recorded with the reason. The
//! root can be a recorded tree, for example from a support archive. A recorded tree lacks data that only a
//! running kernel can provide.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wiretail_schema::host::record::{ETHTOOL, HostRecord, KERNEL_CONFIG, LATER, MSR, Reading, SELF, TASKS};

use crate::network::netlink::generic::GenericNetlink;
use crate::sys;

/// Size limit per file. Files with settings are never larger.
const TEXT_MAX: u64 = 512 << 10;
/// Maximum number of matches per pattern. It is high because a host can have thousands of interrupts.
const MATCHES_MAX: usize = 4096;

/// The environment of process 1. Container runtimes set the variable `container` in it.
const ENVIRONMENT: &str = "/proc/1/environ";

/// The files and registers to read.
#[derive(Debug, Clone)]
pub struct RecordPlan<'a> {
    /// Absolute paths. In each component, `*` matches any text.
    pub files: &'a [&'a str],
    /// Paths of files that are read again after the interval.
    pub twice: &'a [&'a str],
    /// Model-specific registers of each core. They are also read twice.
    pub registers: &'a [u64],
    /// Prefixes of kernel configuration options, such as `CONFIG_HZ`.
    pub options: &'a [&'a str],
    /// Time between the two readings; zero for a single reading.
    pub interval: Duration,
}

/// Reads a host under `root` (`/`, or a recorded tree). Between the two readings, `wait` must sleep for the
/// given time.
pub fn record(root: &Path, plan: &RecordPlan<'_>, wait: impl FnOnce(Duration)) -> HostRecord {
    let mut record = HostRecord::default();
    for pattern in plan.files {
        for (name, path) in matches_or(root, pattern, |name, error| add(&mut record, name, Err(error))) {
            let text = read(&path);
            let text = if name == ENVIRONMENT { text.map(|text| container_words(&text)) } else { text };
            add(&mut record, name, text);
        }
    }
    kernel_config(root, plan.options, &mut record);
    registers(root, plan.registers, &mut record, "");
    if root == Path::new("/") {
        nics(&mut record);
    }
    tasks(root, TASKS.to_owned(), &mut record);
    let begun = Instant::now();
    read_counted(root, plan.twice, &mut record, "");
    if plan.interval.is_zero() {
        return record;
    }
    record.add(SELF, &std::process::id().to_string());
    wait(plan.interval);
    read_counted(root, plan.twice, &mut record, LATER);
    registers(root, plan.registers, &mut record, LATER);
    tasks(root, format!("{TASKS}{LATER}"), &mut record);
    record.interval_ns = begun.elapsed().as_nanos() as u64;
    record
}

/// Keeps only the environment variables that identify a container, because the others may hold secrets.
fn container_words(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| word.starts_with("container=")).collect();
    words.join(" ")
}

fn read_counted(root: &Path, patterns: &[&str], record: &mut HostRecord, suffix: &str) {
    for pattern in patterns {
        for (name, path) in matches(root, pattern) {
            add(record, format!("{name}{suffix}"), read(&path));
        }
    }
}

fn add(record: &mut HostRecord, name: String, text: io::Result<String>) {
    match text {
        Ok(text) => record.add(&name, &text),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => {
            record.readings.insert(name, Reading::Unreadable(error.to_string()));
        }
    }
}

/// Content of a file. If the path is a link to a folder, returns the target of the link, which identifies a
/// driver or device.
fn read(path: &Path) -> io::Result<String> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() && fs::metadata(path).is_ok_and(|target| target.is_dir()) {
        return Ok(fs::read_link(path)?.to_string_lossy().into_owned());
    }
    // Namespace links do not point to a file. Their target contains the namespace number.
    if meta.is_symlink()
        && let Ok(target) = fs::read_link(path)
        && target.to_str().is_some_and(|target| target.ends_with(']'))
    {
        return Ok(target.to_string_lossy().into_owned());
    }
    if fs::metadata(path)?.is_dir() {
        let mut names: Vec<String> = fs::read_dir(path)?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        return Ok(names.join("\n"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(TEXT_MAX).read_to_end(&mut bytes)?;
    // The arguments of a process are separated by NUL bytes.
    Ok(String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned())
}

/// Expands a pattern under `root`. Returns the path on the host and the path under `root` of each match, in
/// sorted order.
fn matches(root: &Path, pattern: &str) -> Vec<(String, PathBuf)> {
    matches_or(root, pattern, |_, _| ())
}

/// Same as `matches`. Passes folders that cannot be listed to `denied`.
fn matches_or(
    root: &Path,
    pattern: &str,
    mut denied: impl FnMut(String, io::Error),
) -> Vec<(String, PathBuf)> {
    let mut found = vec![(String::new(), root.to_path_buf())];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, behind)) = part.split_once('*') else {
            found.iter_mut().for_each(|(name, path)| {
                *name = format!("{name}/{part}");
                path.push(part);
            });
            continue;
        };
        let mut next = Vec::new();
        for (name, path) in &found {
            let entries = match fs::read_dir(path) {
                Ok(entries) => entries,
                // Only denied permissions are reported. Any other error means that the folder does not exist.
                Err(error) => {
                    if error.kind() == ErrorKind::PermissionDenied {
                        denied(name.clone(), error);
                    }
                    continue;
                }
            };
            let mut names: Vec<String> = entries
                .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
                .filter(|entry| {
                    entry.len() >= before.len() + behind.len()
                        && entry.starts_with(before)
                        && entry.ends_with(behind)
                })
                .collect();
            names.sort();
            next.extend(names.into_iter().map(|entry| (format!("{name}/{entry}"), path.join(entry))));
        }
        next.truncate(MATCHES_MAX);
        found = next;
    }
    found
}

/// The kernel configuration, from /boot/config-RELEASE or the modules folder. /proc/config.gz is not read
/// because it is compressed, and distribution kernels provide the configuration in one of the other files.
fn kernel_config(root: &Path, options: &[&str], record: &mut HostRecord) {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let release = release.trim();
    let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    let found = places.iter().map(|place| fs::read_to_string(root.join(place)));
    let Some(text) = found.into_iter().find_map(Result::ok) else { return };
    let wanted = |line: &&str| {
        let name = line.strip_prefix("# ").unwrap_or(line);
        options.iter().any(|option| name.starts_with(option))
    };
    let lines: Vec<&str> = text.lines().filter(wanted).collect();
    record.add(KERNEL_CONFIG, &lines.join("\n"));
}

/// Model-specific registers as decimal numbers, named like `msr/CORE/0x34`. In /dev/cpu/CORE/msr, the file
/// offset is the register number (msr(4)).
fn registers(root: &Path, numbers: &[u64], record: &mut HostRecord, suffix: &str) {
    for (name, path) in matches(root, "/dev/cpu/*/msr") {
        let core = name.trim_start_matches("/dev/cpu/").trim_end_matches("/msr");
        for number in numbers {
            let read = || {
                let mut bytes = [0; 8];
                fs::File::open(&path)?.read_exact_at(&mut bytes, *number)?;
                Ok(u64::from_le_bytes(bytes).to_string())
            };
            add(record, format!("{MSR}{core}/{number:#x}{suffix}"), read());
        }
    }
}

/// Records the settings of all NICs, that is, of all links that have a device, as `ethtool/LINK`.
fn nics(record: &mut HostRecord) {
    for (name, _) in matches(Path::new("/"), "/sys/class/net/*/device/uevent") {
        let link = name.split('/').nth(4).unwrap_or_default();
        let settings = GenericNetlink::open().and_then(|mut netlink| netlink.settings(link));
        let settings = settings.map(|text| text + &driver_lines(link));
        add(record, format!("{ETHTOOL}{link}"), settings);
    }
}

/// Driver and firmware, as lines of a NIC's settings. Empty if the driver does not report them.
fn driver_lines(link: &str) -> String {
    let Ok(driver) = sys::driver::driver(link) else { return String::new() };
    // "none" means that the firmware has no version. If the line is absent, the version was not read.
    let firmware = if driver.firmware.is_empty() { "none" } else { &driver.firmware };
    format!("driver {}\ndriver-version {}\nfirmware {firmware}\n", driver.name, driver.version)
}

/// All threads, one per line: TID, PID, last core, policy, real-time priority, clock ticks of CPU time,
/// kernel or user, allowed cores, name.
fn tasks(root: &Path, name: String, record: &mut HostRecord) {
    let mut lines = Vec::new();
    let mut failed = None;
    let numbers = |path: &Path| -> io::Result<Vec<u32>> {
        let names = fs::read_dir(path)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<u32> = names.collect();
        numbers.sort_unstable();
        Ok(numbers)
    };
    let folder = root.join("proc");
    for pid in numbers(&folder).unwrap_or_default() {
        let process = folder.join(pid.to_string()).join("task");
        for tid in numbers(&process).unwrap_or_default() {
            // A thread that has ended in the meantime is not an error.
            match task(&process.join(tid.to_string()), pid, tid) {
                Ok(line) => lines.extend(line),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => failed = Some(error),
                Err(_) => {}
            }
        }
    }
    let others = lines.iter().any(|line: &String| line.starts_with("1 1 "));
    if !others && hides_others(root) {
        let why = "/proc is mounted with hidepid and shows only threads of the same user".to_owned();
        record.readings.insert(name, Reading::Unreadable(why));
    } else if !lines.is_empty() {
        record.add(&name, &lines.join("\n"));
    } else if let Some(error) = failed {
        record.readings.insert(name, Reading::Unreadable(error.to_string()));
    }
}

/// Whether processes of other users are hidden: proc(5), mount options.
fn hides_others(root: &Path) -> bool {
    let mounts = fs::read_to_string(root.join("proc/mounts")).unwrap_or_default();
    let mut options = mounts.lines().filter_map(|line| {
        let mut parts = line.split(' ').skip(1);
        (parts.next() == Some("/proc") && parts.next() == Some("proc")).then(|| parts.next())?
    });
    let hidden = |option: &str| option.strip_prefix("hidepid=").is_some_and(|how| how != "0" && how != "off");
    options.any(|options| options.split(',').any(hidden))
}

fn task(path: &Path, pid: u32, tid: u32) -> io::Result<Option<String>> {
    let stat = fs::read_to_string(path.join("stat"))?;
    let status = fs::read_to_string(path.join("status"))?;
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("").trim();
    // The command name is enclosed in parentheses and can contain any character: proc(5).
    let line = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).and_then(|(comm, rest)| {
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = field(14)?.parse::<u64>().ok()? + field(15)?.parse::<u64>().ok()?;
        let kernel = if field(9)?.parse::<u64>().ok()? & 0x0020_0000 != 0 { "kernel" } else { "user" };
        let (core, priority, policy) = (field(39)?, field(40)?, field(41)?);
        let comm = comm.replace('\n', " ");
        Some(format!("{tid} {pid} {core} {policy} {priority} {ticks} {kernel} {allowed} {comm}"))
    });
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn records_tree() {
        let stat = "7 (a (b) c) S 1 0 0 0 -1 2097152 0 0 0 0 3 4 0 0 20 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 50 1 0";
        let root = tree(&[
            ("proc/cmdline", "quiet\n"),
            ("proc/1/environ", "PASSWORD=secret\0container=lxc\0"),
            ("proc/sys/kernel/osrelease", "6.1\n"),
            ("boot/config-6.1", "CONFIG_HZ=250\n# CONFIG_HZ_100 is not set\nCONFIG_OTHER=y\n"),
            ("sys/cpu0/governor", "performance\n"),
            ("sys/cpu1/governor", "powersave\n"),
            ("sys/online", "0-1\n"),
            ("dev/cpu/1/msr", "-\x05\0\0\0\0\0\0\0"),
            ("proc/7/task/7/stat", stat),
            ("proc/7/task/7/status", "Name:\ta\nCpus_allowed_list:\t0-1\n"),
        ]);
        let plan = RecordPlan {
            files: &["/proc/cmdline", "/proc/1/environ", "/sys/cpu*/governor", "/none", "/no*/x"],
            twice: &["/sys/online"],
            registers: &[1],
            options: &["CONFIG_HZ"],
            interval: Duration::from_nanos(1),
        };
        let record =
            record(root.path(), &plan, |_| fs::write(root.path().join("sys/online"), "0").expect("written"));
        let text = |name: &str| match record.readings.get(name) {
            Some(Reading::Text(text)) => text.as_str(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!((text("/proc/cmdline"), text("/sys/cpu1/governor")), ("quiet", "powersave"));
        assert_eq!((text("/sys/online"), text("/sys/online@later")), ("0-1", "0"));
        assert_eq!(text(KERNEL_CONFIG), "CONFIG_HZ=250\n# CONFIG_HZ_100 is not set");
        assert_eq!(text(TASKS), "7 7 1 1 50 7 kernel 0-1 a (b) c");
        assert_eq!((text("msr/1/0x1"), text("msr/1/0x1@later")), ("5", "5"));
        assert_eq!(text("/proc/1/environ"), "container=lxc");
        assert_eq!(record.readings.len(), 12, "{record}");
        assert_eq!(HostRecord::parse(&record.to_string()), Ok(record));
    }

    #[test]
    fn hidepid_makes_tasks_unreadable() {
        let root = tree(&[("proc/mounts", "proc /proc proc rw,relatime,hidepid=invisible 0 0\n")]);
        let plan =
            RecordPlan { files: &[], twice: &[], registers: &[], options: &[], interval: Duration::ZERO };
        let record = record(root.path(), &plan, |_| ());
        assert!(
            matches!(&record.readings[TASKS], Reading::Unreadable(why) if why.contains("hidepid")),
            "{record}"
        );
        let shown = tree(&[("proc/mounts", "proc /proc proc rw,relatime 0 0\n")]);
        assert!(!hides_others(shown.path()));
    }

    #[test]
    fn records_this_machine() {
        let plan = RecordPlan {
            files: &["/proc/cmdline", "/sys/devices/system/cpu/online"],
            twice: &["/proc/interrupts"],
            registers: &[0x34],
            options: &[],
            interval: Duration::from_millis(1),
        };
        let record = record(Path::new("/"), &plan, std::thread::sleep);
        assert!(record.readings.contains_key("/proc/interrupts@later"), "{record}");
        let Some(Reading::Text(tasks)) = record.readings.get(TASKS) else { panic!("no tasks") };
        assert!(tasks.lines().any(|line| line.starts_with(&format!("{} ", std::process::id()))), "{tasks}");
        assert!(record.interval_ns >= 1_000_000);
    }
}
