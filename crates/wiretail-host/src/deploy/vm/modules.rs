//! Kernel modules: dependencies and load order, from `modules.dep` (modules.dep(5)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deploy::need;
use crate::error::HostError;

/// The modules that a guest needs for PCI network links and bridges. In some kernels, they are built in.
pub(super) const GUEST: [&str; 6] = ["virtio_pci", "virtio_net", "bridge", "af_packet", "tun", "veth"];

/// The files of the wanted modules and all their dependencies, in load order. Modules that are not listed in
/// `modules.dep` are built in and therefore skipped.
pub(super) fn closure(dependencies: &str, wanted: &[&str]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for module in wanted {
        let is_it = |line: &&str| line.split_once(':').is_some_and(|(file, _)| name(file) == *module);
        let Some((file, needs)) = dependencies.lines().find(is_it).and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        // `modules.dep` lists all direct and indirect dependencies in reverse load order.
        for file in needs.split_ascii_whitespace().rev().chain([file]) {
            if !order.iter().any(|other| other == file) {
                order.push(file.into());
            }
        }
    }
    order
}

/// Name of a module: `virtio_net` for `kernel/drivers/net/virtio-net.ko.xz`.
fn name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// Names and contents of the modules that a guest needs, in load order.
pub(super) fn load(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, HostError> {
    let path = folder.join("modules.dep");
    let dependencies = fs::read_to_string(&path).map_err(HostError::file("read", &path))?;
    let read = |file: String| Ok((name(&file), unpacked(&folder.join(&file))?));
    closure(&dependencies, &GUEST).into_iter().map(read).collect()
}

fn unpacked(path: &PathBuf) -> Result<Vec<u8>, HostError> {
    let error = || HostError::file("read the module", path);
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(error()),
    };
    let output = Command::new(need(program, "vm")?).arg("-dc").arg(path).output().map_err(error())?;
    if output.status.success() { Ok(output.stdout) } else { Err(error()(io::ErrorKind::InvalidData.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once() {
        let dependencies = "kernel/drivers/virtio/virtio.ko.xz:
kernel/drivers/virtio/virtio_ring.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz
kernel/net/core/failover.ko.xz:
kernel/drivers/net/virtio-net.ko.xz: kernel/net/core/failover.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz
";
        let order = closure(dependencies, &["virtio_pci", "built_in", "virtio_net"]);
        let names: Vec<String> = order.iter().map(|file| name(file)).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_pci", "failover", "virtio_net"]);
    }
}
