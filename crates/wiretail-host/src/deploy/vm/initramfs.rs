//! The initramfs of a guest, which is its only file system: busybox, kernel modules, the program with its
//! shared libraries, and its files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use rustix::fs::MemfdFlags;

use super::cpio::Archive;
use super::{Guest, KernelImage, modules};
use crate::deploy::{installed, need};
use crate::error::HostError;

/// Script that runs as process 1.
const INIT: &str = include_str!("init.sh");
/// System files that programs may look up: users, services, library paths.
const SYSTEM: [&str; 8] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/protocols",
    "/etc/services",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
];
/// Maximum number of symbolic links to follow in a path. A longer chain is treated as a loop.
const LINKS_MAX: u32 = 40;
/// Minimum ratio between the guest's memory and the size of its files. During unpacking, the archive and the
/// unpacked files each take as much memory as the files are large. The remaining third is left for the
/// program.
const MEMORY_SHARE: u64 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Folder,
    Link(PathBuf),
    File(PathBuf),
    Text { content: Vec<u8>, executable: bool },
}

/// Paths in the initramfs. The order puts each folder before its content.
#[derive(Debug, Default)]
struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

/// Builds the archive in an anonymous memory file, which is freed when its last descriptor is closed.
pub(super) fn build(guest: &Guest, kernel: &KernelImage) -> Result<OwnedFd, HostError> {
    let object = || format!("the initramfs of {}", guest.name);
    let tree = tree(guest, kernel)?;
    let size = tree.size();
    if size * MEMORY_SHARE > u64::from(guest.memory_mib) << 20 {
        let fault = format!(
            "the files take {} MiB, but the guest has only {} MiB of memory; give it more than {} MiB, or fewer files",
            size >> 20,
            guest.memory_mib,
            (size * MEMORY_SHARE) >> 20
        );
        return Err(HostError::system("fill", object())(io::Error::other(fault)));
    }
    let memory = rustix::fs::memfd_create("initramfs", MemfdFlags::CLOEXEC)
        .map_err(|errno| HostError::system("make", object())(errno.into()))?;
    let file = File::from(memory);
    let archive = tree.write(BufWriter::new(&file)).and_then(|mut output| output.flush());
    archive.map_err(HostError::system("write", object()))?;
    Ok(file.into())
}

fn tree(guest: &Guest, kernel: &KernelImage) -> Result<Tree, HostError> {
    let workload = &guest.workload;
    let mut tree = Tree::default();
    let busybox = need("busybox", "vm")?;
    let busybox_path = fs::canonicalize(&busybox).map_err(HostError::file("find", &busybox))?;
    tree.nodes.insert("/wiretail/busybox".into(), Node::File(busybox_path));
    tree.text("/init", INIT, true);
    let mut names = Vec::new();
    for (name, content) in modules::load(&kernel.modules)? {
        let path = format!("/wiretail/modules/{name}.ko");
        tree.nodes.insert(path.into(), Node::Text { content, executable: false });
        names.push(name);
    }
    // The kernel configuration, at the same path as on installed systems.
    let config = format!("config-{}", kernel.release);
    let config_path = kernel.vmlinuz.with_file_name(&config);
    if config_path.is_file() {
        tree.nodes.insert(Path::new("/boot").join(config), Node::File(config_path));
    }
    tree.text("/wiretail/settings", &settings(guest, &names), false);
    tree.text("/wiretail/program", &program(guest), true);
    let argv0 = workload.argv.first().map(String::as_str).unwrap_or_default();
    // If a program is given without a path and the host does not have it, busybox may provide it.
    let program = if argv0.contains('/') { Some(PathBuf::from(argv0)) } else { installed(argv0) };
    // The interpreter of shell scripts.
    let shell = Some(PathBuf::from("/bin/sh"));
    for path in program.into_iter().chain(shell) {
        tree.program(&path)?;
    }
    for path in &workload.reads {
        // Executables among the files need their shared libraries as well.
        let is_program =
            fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        if is_program { tree.program(path)? } else { tree.host(path)? }
    }
    tree.host(&workload.directory)?;
    for path in SYSTEM.iter().map(Path::new).filter(|path| path.exists()) {
        tree.host(path)?;
    }
    tree.libraries_of_plugins(&workload.reads)?;
    tree.parents();
    Ok(tree)
}

/// Settings for the guest's process 1, as shell variables.
pub(super) fn settings(guest: &Guest, modules: &[String]) -> String {
    let links: Vec<String> = guest.links.iter().map(|link| format!("{},{}", link.name, link.mac)).collect();
    // Number of 2 MiB pages that make up half of the memory.
    let pages = if guest.workload.hugepages { guest.memory_mib / 4 } else { 0 };
    let values =
        [("MODULES", modules.join(" ")), ("LINKS", links.join(" ")), ("HUGEPAGES", pages.to_string())];
    values.iter().map(|(name, value)| format!("{name}={}\n", quoted(value))).collect()
}

/// The script that changes to the working directory and executes the program.
pub(super) fn program(guest: &Guest) -> String {
    let workload = &guest.workload;
    let folder = quoted(&workload.directory.to_string_lossy());
    // The busybox folder comes last in PATH, so that it provides only programs that the host does not have.
    let environment = workload
        .environment()
        .enumerate()
        .map(|(number, value)| quoted(&if number == 0 { format!("{value}:/wiretail/bin") } else { value }));
    let words: Vec<String> = environment.chain(workload.argv.iter().map(|word| quoted(word))).collect();
    format!("#!/wiretail/busybox sh\ncd {folder} && exec /wiretail/busybox env -i {}\n", words.join(" "))
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Tree {
    fn text(&mut self, path: &str, content: &str, executable: bool) {
        self.nodes.insert(path.into(), Node::Text { content: content.into(), executable });
    }

    /// Adds a path of the host and all symbolic links on the way to it. Folders are added recursively.
    fn host(&mut self, path: &Path) -> Result<(), HostError> {
        let mut links = 0;
        let path = self.follow(path, &mut links)?;
        let metadata = fs::metadata(&path).map_err(HostError::file("read the metadata of", &path))?;
        if metadata.is_dir() {
            self.nodes.insert(path.clone(), Node::Folder);
            let entries = fs::read_dir(&path).map_err(HostError::file("list", &path))?;
            for entry in entries {
                let inside = entry.map_err(HostError::file("list", &path))?.path();
                // Skips dangling links. Sockets and devices are skipped below.
                if inside.exists() {
                    self.host(&inside)?;
                }
            }
        } else if metadata.is_file() {
            self.nodes.insert(path.clone(), Node::File(path));
        }
        Ok(())
    }

    /// Adds every symbolic link on the way, and returns the resolved path.
    fn follow(&mut self, path: &Path, links: &mut u32) -> Result<PathBuf, HostError> {
        let mut walked = PathBuf::from("/");
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            match part {
                Component::Normal(name) => walked.push(name),
                Component::ParentDir => drop(walked.pop()),
                _ => continue,
            }
            let Ok(target) = fs::read_link(&walked) else { continue };
            *links += 1;
            if *links > LINKS_MAX {
                return Err(HostError::file("follow the links of", path)(io::ErrorKind::InvalidInput.into()));
            }
            self.nodes.insert(walked.clone(), Node::Link(target.clone()));
            let folder = walked.parent().unwrap_or(Path::new("/")).to_path_buf();
            return self.follow(&folder.join(target).join(parts.as_path()), links);
        }
        Ok(walked)
    }

    /// Adds a program and the shared libraries that it is linked with.
    fn program(&mut self, path: &Path) -> Result<(), HostError> {
        self.host(path)?;
        for library in libraries(path)? {
            self.host(&library)?;
        }
        Ok(())
    }

    /// Adds the libraries needed by the shared objects among the files. Such objects are plugins that a
    /// program loads at run time.
    fn libraries_of_plugins(&mut self, reads: &[PathBuf]) -> Result<(), HostError> {
        let is_plugin = |node: &Node| match node {
            Node::File(path) => {
                reads.iter().any(|read| path.starts_with(fs::canonicalize(read).unwrap_or_default()))
                    && path.to_string_lossy().contains(".so")
            }
            _ => false,
        };
        let plugins: Vec<PathBuf> =
            self.nodes.iter().filter(|(_, node)| is_plugin(node)).map(|(path, _)| path.clone()).collect();
        plugins.iter().try_for_each(|plugin| self.program(plugin))
    }

    /// Adds the parent folders of all paths.
    fn parents(&mut self) {
        let paths: Vec<PathBuf> = self.nodes.keys().cloned().collect();
        for path in paths {
            for folder in path.ancestors().skip(1).filter(|folder| *folder != Path::new("/")) {
                self.nodes.entry(folder.into()).or_insert(Node::Folder);
            }
        }
    }

    /// Total size of the files in bytes.
    fn size(&self) -> u64 {
        let of = |node: &Node| match node {
            Node::File(path) => fs::metadata(path).map_or(0, |metadata| metadata.len()),
            Node::Text { content, .. } => content.len() as u64,
            _ => 0,
        };
        self.nodes.values().map(of).sum()
    }

    fn write<W: Write>(&self, output: W) -> io::Result<W> {
        let mut archive = Archive::new(output);
        for (path, node) in &self.nodes {
            let text = |path: &Path| path.to_str().map(str::to_owned).ok_or(io::ErrorKind::InvalidFilename);
            let name = text(path)?;
            let name = name.trim_start_matches('/');
            match node {
                Node::Folder => archive.folder(name)?,
                Node::Link(target) => archive.link(name, &text(target)?)?,
                Node::File(from) => {
                    let content = fs::read(from)?;
                    let executable = fs::metadata(from)?.permissions().mode() & 0o111 != 0;
                    archive.file(name, executable, &content)?;
                }
                Node::Text { content, executable } => archive.file(name, *executable, content)?,
            }
        }
        archive.finish()
    }
}

/// The shared libraries of a program, as listed by `ldd`. Empty for static programs and scripts.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, HostError> {
    let output = Command::new(need("ldd", "vm")?)
        .arg(program)
        .output()
        .map_err(HostError::file("list the libraries of", program))?;
    parse_ldd(&String::from_utf8_lossy(&output.stdout)).map_err(|library| HostError::NotInstalled {
        what: format!("{library}, for {}", program.display()),
        part: "vm",
    })
}

/// Parses the output of `ldd`: `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)`, or `NAME => not found`. Returns
/// the name of a missing library as the error.
fn parse_ldd(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let (name, path) = line.trim().split_once(" => ").unwrap_or(("", line.trim()));
        if path.starts_with("not found") {
            return Err(name.into());
        }
        found.extend(path.split(" (").next().filter(|path| path.starts_with('/')).map(PathBuf::from));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ldd_output() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = parse_ldd(text).expect("all there");
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(found, expected);
        assert_eq!(parse_ldd("\tlibodd.so => not found\n"), Err("libodd.so".into()));
        assert_eq!(parse_ldd("\tstatically linked\n"), Ok(Vec::new()));
    }

    #[test]
    fn adds_symbolic_links_of_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("there");
        fs::create_dir_all(root.join("real/deep")).expect("made");
        fs::write(root.join("real/deep/file"), "x").expect("written");
        std::os::unix::fs::symlink("real", root.join("link")).expect("made");
        std::os::unix::fs::symlink("../../nowhere", root.join("real/deep/broken")).expect("made");
        let mut tree = Tree::default();
        tree.host(&root.join("link/deep")).expect("taken");
        tree.parents();
        assert_eq!(tree.nodes.get(&root.join("link")), Some(&Node::Link("real".into())));
        let file = root.join("real/deep/file");
        assert_eq!(tree.nodes.get(&file), Some(&Node::File(file.clone())));
        assert_eq!(tree.nodes.get(&root.join("real")), Some(&Node::Folder));
        assert_eq!(tree.nodes.get(&root.join("real/deep/broken")), None);
        std::os::unix::fs::symlink("loop", root.join("loop")).expect("made");
        assert!(tree.host(&root.join("loop")).is_err());
    }

    #[test]
    fn quoted_words_survive_shell() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\" \\", ""] {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").arg("-c").arg(script).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }
}
