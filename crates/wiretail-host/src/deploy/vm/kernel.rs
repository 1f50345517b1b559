//! Kernels for guests: Debian packages, unpacked into a cache without being installed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::deploy::need;
use crate::error::HostError;

/// Flavors of Debian's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// For virtual machines, with few drivers.
    Cloud,
    /// The default kernel of a Debian installation.
    Standard,
    /// The fully preemptible kernel (PREEMPT_RT).
    Rt,
}

impl Kernel {
    pub const ALL: [Kernel; 3] = [Kernel::Cloud, Kernel::Standard, Kernel::Rt];

    /// The name used in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Cloud => "cloud",
            Kernel::Standard => "standard",
            Kernel::Rt => "rt",
        }
    }

    /// The metapackage of the newest kernel of this flavor.
    pub fn package(self) -> &'static str {
        match self {
            Kernel::Cloud => "linux-image-cloud-amd64",
            Kernel::Standard => "linux-image-amd64",
            Kernel::Rt => "linux-image-rt-amd64",
        }
    }

    /// Version in the name of a package of this flavor: 6, 1, 0, 56 for `linux-image-6.1.0-56-cloud-amd64`.
    fn version(self, package: &str) -> Option<Vec<u32>> {
        let end = self.package().trim_start_matches("linux-image");
        let version = package.strip_prefix("linux-image-")?.strip_suffix(end)?;
        version.split(['.', '-', '+']).map(|part| part.trim_start_matches("deb").parse().ok()).collect()
    }
}

/// A kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// Path of the kernel image.
    pub vmlinuz: PathBuf,
    /// Folder of its modules, with `modules.dep`.
    pub modules: PathBuf,
    /// Release string, such as `6.1.0-56-cloud-amd64`.
    pub release: String,
}

/// Folder for unpacked kernels: `wiretail` in the user's cache folder, or in the system's cache folder for
/// root.
///
/// # Errors
/// Returns [`HostError::System`] for a user without a home directory.
pub fn cache_folder() -> Result<PathBuf, HostError> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let found = set("XDG_CACHE_HOME")
        .or_else(|| if rustix::process::geteuid().is_root() { Some("/var/cache".into()) } else { None });
    let found = found.or_else(|| set("HOME").map(|home| home.join(".cache")));
    let missing = || HostError::system("find the cache of", "this user")(io::ErrorKind::NotFound.into());
    found.map(|folder| folder.join("wiretail")).ok_or_else(missing)
}

/// The newest kernel of this flavor in the cache.
pub fn kernel_cached(kind: Kernel) -> Option<KernelImage> {
    newest(&cache_folder().ok()?.join("kernels"), kind)
}

fn newest(folder: &Path, kind: Kernel) -> Option<KernelImage> {
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let versions = names.filter_map(|name| Some((kind.version(&name)?, name)));
    let (_, package) = versions.max()?;
    let release = package.strip_prefix("linux-image-")?.to_owned();
    let root = folder.join(&package);
    let vmlinuz = root.join("boot").join(format!("vmlinuz-{release}"));
    let modules = root.join("lib/modules").join(&release);
    (vmlinuz.is_file() && modules.join("modules.dep").is_file()).then_some(KernelImage {
        vmlinuz,
        modules,
        release,
    })
}

/// Returns the newest kernel of this flavor in the cache. If the cache has none, downloads and unpacks the
/// newest package in apt's package lists.
///
/// # Errors
/// Returns [`HostError::NotInstalled`], with the message from apt, if the download fails or a required
/// program is missing.
pub fn ensure_kernel(kind: Kernel) -> Result<KernelImage, HostError> {
    fetch_kernel(kind, &[])
}

/// Same as [`ensure_kernel`], with additional apt options in command-line syntax (apt.conf(5)).
///
/// # Errors
/// Same as [`ensure_kernel`].
pub fn fetch_kernel(kind: Kernel, apt: &[String]) -> Result<KernelImage, HostError> {
    if let Some(image) = kernel_cached(kind) {
        return Ok(image);
    }
    let package = real_package(kind, apt)?;
    let folder = cache_folder()?.join("kernels");
    fs::create_dir_all(&folder).map_err(HostError::file("make the folder", &folder))?;
    // The folder is renamed once it is complete, so that a killed process leaves no incomplete kernel.
    let partial = folder.join(format!(".partial-{}", std::process::id()));
    let fetched = fetch(kind, &package, &partial, apt);
    let target = folder.join(&package);
    let moved = fetched.and_then(|()| match fs::rename(partial.join("root"), &target) {
        // Another process has created the folder first.
        Err(_) if target.exists() => Ok(()),
        other => other.map_err(HostError::file("make the folder", &target)),
    });
    let _ = fs::remove_dir_all(&partial);
    moved?;
    kernel_cached(kind).ok_or_else(|| unavailable(kind, "the package does not contain a kernel with modules"))
}

/// The versioned package that the metapackage depends on.
fn real_package(kind: Kernel, apt: &[String]) -> Result<String, HostError> {
    let mut command = Command::new(need("apt-cache", "vm")?);
    command.args(apt).args(["show", "--no-all-versions", kind.package()]);
    let text = run(kind, command)?;
    let depends = text.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
    let names = depends.split(',').filter_map(|part| part.split_ascii_whitespace().next());
    let found = names.into_iter().find(|name| kind.version(name).is_some());
    found.map(str::to_owned).ok_or_else(|| unavailable(kind, "not in the package lists"))
}

fn fetch(kind: Kernel, package: &str, folder: &Path, apt: &[String]) -> Result<(), HostError> {
    let _ = fs::remove_dir_all(folder);
    let root = folder.join("root");
    fs::create_dir_all(&root).map_err(HostError::file("make the folder", &root))?;
    let mut command = Command::new(need("apt-get", "vm")?);
    command.args(apt).args(["download", package]).current_dir(folder);
    run(kind, command)?;
    let entries = fs::read_dir(folder).map_err(HostError::file("list", folder))?;
    let archive =
        entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "deb"));
    let archive = archive.ok_or_else(|| unavailable(kind, "apt-get downloaded nothing"))?;
    let mut command = Command::new(need("dpkg-deb", "vm")?);
    command.arg("-x").arg(archive).arg(&root);
    run(kind, command)?;
    let release = package.trim_start_matches("linux-image-");
    // Only installing the package creates modules.dep; unpacking does not, so depmod is run here.
    let mut command = Command::new(need("depmod", "vm")?);
    command.arg("-b").arg(&root).arg(release);
    run(kind, command).map(drop)
}

/// Runs a program and returns its output. If it fails, the error contains its last message.
fn run(kind: Kernel, mut command: Command) -> Result<String, HostError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(HostError::system("start the program", program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(unavailable(kind, complaint.lines().rfind(|line| !line.is_empty()).unwrap_or("no reason given")))
}

fn unavailable(kind: Kernel, why: &str) -> HostError {
    HostError::NotInstalled { what: format!("kernel package {} ({why})", kind.package()), part: "vm" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_flavors_by_package_name() {
        let cloud = Kernel::Cloud.version("linux-image-6.1.0-56-cloud-amd64");
        assert_eq!(cloud, Some(vec![6, 1, 0, 56]));
        assert_eq!(Kernel::Standard.version("linux-image-6.1.0-56-cloud-amd64"), None);
        assert_eq!(Kernel::Standard.version("linux-image-6.1.0-9-amd64"), Some(vec![6, 1, 0, 9]));
        assert_eq!(Kernel::Rt.version("linux-image-rt-amd64"), None);
        let newer = Kernel::Rt.version("linux-image-6.12.9+deb13-rt-amd64");
        assert_eq!(newer, Some(vec![6, 12, 9, 13]));
        assert_eq!(Kernel::Standard.version("linux-image-6.12.9+deb13-rt-amd64"), None);
    }

    #[test]
    fn finds_newest_complete_kernel() {
        let folder = tempfile::tempdir().expect("a folder");
        for release in ["6.1.0-9-amd64", "6.1.0-56-amd64"] {
            let root = folder.path().join(format!("linux-image-{release}"));
            fs::create_dir_all(root.join("lib/modules").join(release)).expect("made");
            fs::create_dir(root.join("boot")).expect("made");
            fs::write(root.join("boot").join(format!("vmlinuz-{release}")), "").expect("written");
            fs::write(root.join("lib/modules").join(release).join("modules.dep"), "").expect("written");
        }
        let found = newest(folder.path(), Kernel::Standard).expect("there");
        assert_eq!(found.release, "6.1.0-56-amd64");
        fs::remove_file(&found.vmlinuz).expect("removed");
        assert_eq!(newest(folder.path(), Kernel::Standard), None);
        assert_eq!(newest(folder.path(), Kernel::Cloud), None);
    }
}
