//! The same guest as a libvirt domain, for hosts managed by libvirt: <https://libvirt.org/formatdomain.html>.

use std::fmt::Write;

use super::{Backend, Guest};
use crate::deploy::vm::Accel;

/// XML of a domain that matches the guest, with huge pages. vCPU N is pinned to `cores[N]`. The archive
/// `initramfs.cpio` and the kernel `vmlinuz` must be in `/var/lib/libvirt/images/NAME`, because libvirt
/// cannot use this process's descriptors. libvirt chooses the names of tap devices.
pub fn libvirt_xml(guest: &Guest, cores: &[u32]) -> String {
    let name = escaped(&guest.name);
    let folder = format!("/var/lib/libvirt/images/{name}");
    let pins: String = (0..guest.vcpus as usize)
        .filter_map(|vcpu| Some((vcpu, cores.get(vcpu)?)))
        .map(|(vcpu, core)| format!("\n    <vcpupin vcpu='{vcpu}' cpuset='{core}'/>"))
        .collect();
    let links: String = guest.links.iter().map(link).collect();
    // Production hosts have KVM.
    let line = escaped(&guest.boot_line(Accel::Kvm));
    format!(
        "<domain type='kvm'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <memoryBacking>
    <hugepages/>
    <source type='memfd'/>
    <access mode='shared'/>
    <allocation mode='immediate'/>
    <locked/>
  </memoryBacking>
  <vcpu placement='static'>{vcpus}</vcpu>
  <cputune>{pins}
  </cputune>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{folder}/vmlinuz</kernel>
    <initrd>{folder}/initramfs.cpio</initrd>
    <cmdline>{line}</cmdline>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <cpu mode='host-passthrough' check='none'>
    <numa>
      <cell id='0' cpus='0-{last}' memory='{memory}' unit='MiB' memAccess='shared'/>
    </numa>
  </cpu>
  <on_reboot>destroy</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>{links}
    <serial type='pty'/>
    <console type='pty'/>
    <memballoon model='none'/>
  </devices>
</domain>
",
        memory = guest.memory_mib,
        vcpus = guest.vcpus,
        last = guest.vcpus.saturating_sub(1),
    )
}

fn link(link: &super::GuestLink) -> String {
    let mut text = String::new();
    let kind = match &link.backend {
        Backend::Tap(_) => "ethernet",
        Backend::VhostUser { .. } => "vhostuser",
    };
    let _ = write!(text, "\n    <interface type='{kind}'>\n      <mac address='{}'/>", link.mac);
    if let Backend::VhostUser { socket, server } = &link.backend {
        let socket = escaped(&socket.to_string_lossy());
        let mode = if *server { "server" } else { "client" };
        let _ = write!(text, "\n      <source type='unix' path='{socket}' mode='{mode}'/>");
    }
    text.push_str("\n      <model type='virtio'/>\n      <rom enabled='no'/>\n    </interface>");
    text
}

/// Escapes text and values in single quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&apos;")
}
