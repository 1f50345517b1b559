//! libvirt domain of a virtual machine (formatdomain, libvirt.org): one core per vCPU, huge pages, real-time
//! priority.

use std::fmt::Write;

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, cores, heading};

/// Memory of the virtual machine, in 1 GiB pages: the number that the plan's boot line reserves.
const MEMORY_GIB: u32 = 4;

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let cores = cores(&plan.cores);
    let count = cores.cores().len();
    let mut pins = String::new();
    for (vcpu, core) in cores.cores().iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(pins, "    <vcpupin vcpu='{vcpu}' cpuset='{core}'/>");
    }
    let dedicated = if plan.profile == Profile::Optimized { "on" } else { "off" };
    let giant = super::words(plan).contains(&"default_hugepagesz=1G");
    let page = if giant { "<page size='1' unit='GiB'/>" } else { "<page size='2' unit='MiB'/>" };
    let text = format!(
        "<!-- {heading}.
     Copy these elements into your domain: virsh edit NAME. The first vCPU does the guest's other work:
     run the plan inside the guest with role vm and the other vCPUs as cores. -->
<domain type='kvm'>
  <name>packets</name>
  <memory unit='GiB'>{MEMORY_GIB}</memory>
  <memoryBacking>
    <hugepages>
      {page}
    </hugepages>
    <nosharepages/>
    <locked/>
  </memoryBacking>
  <vcpu placement='static'>{count}</vcpu>
  <cputune>
{pins}    <emulatorpin cpuset='{housekeeping}'/>
    <vcpusched vcpus='0-{last}' scheduler='fifo' priority='1'/>
  </cputune>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
  </os>
  <features>
    <acpi/>
    <apic/>
    <kvm>
      <hint-dedicated state='{dedicated}'/>
    </kvm>
    <pmu state='off'/>
  </features>
  <cpu mode='host-passthrough' migratable='off'>
    <topology sockets='1' dies='1' cores='{count}' threads='1'/>
    <feature policy='require' name='invtsc'/>
  </cpu>
  <clock offset='utc'>
    <timer name='tsc' present='yes' mode='native'/>
    <timer name='hpet' present='no'/>
  </clock>
  <devices>
    <memballoon model='none'/>
  </devices>
</domain>
",
        heading = heading(plan),
        housekeeping = plan.housekeeping,
        last = count.saturating_sub(1),
    );
    vec![Output::new(
        "libvirt/domain.xml",
        text,
        "libvirt: elements for virsh edit; virt-xml-validate accepts the file",
    )]
}
