//! The testbed of a trial, in network namespaces over veth pairs.
//!
//! ```text
//! wire       gen ════════════════════════ sink
//! others     gen ══════ in ▏DuT▕ out ════ sink
//! ```
//!
//! The egress tap is the sink's end of the last pair: what arrives there has left the device. The
//! ingress tap is the device's end of the first pair; without a device, the sender's end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Result;
use wiretail_dataplane::port::PortSpec;
use wiretail_dataplane::timestamper::{Direction, TapSpec};
use wiretail_host::Journal;
use wiretail_host::MacAddress;
use wiretail_host::Namespace;
use wiretail_host::{Plan, Step, VethEnd};

/// Ethernet addresses, so that no address resolution is on the wire.
pub const MAC_GENERATOR: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 1]);
const MAC_IN: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 2]);
const MAC_OUT: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 3]);
/// See [`MAC_GENERATOR`].
pub const MAC_SINK: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 4]);

/// Names of the taps, in the order of [`Testbed::taps`].
pub const TAPS: [&str; 2] = ["pre", "post"];

/// What stands between the load generator and the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middle {
    /// Nothing: one veth pair.
    Nothing,
    /// A Linux bridge.
    Bridge,
    /// Two ports for a program to forward between.
    Ports,
}

/// The steps that make the testbed; names start with `prefix`.
pub fn plan(prefix: &str, middle: Middle) -> Plan {
    let name = |role: &str| format!("{prefix}-{role}");
    let (generator, dut, sink) = (name("gen"), name("dut"), name("sink"));
    let end = |namespace: &str, link: &str, mac| VethEnd {
        namespace: Some(namespace.to_owned()),
        link: link.to_owned(),
        mac: Some(mac),
    };
    let from_generator = end(&generator, "out", MAC_GENERATOR);
    let to_sink = end(&sink, "in", MAC_SINK);
    let mut plan = Plan::new();
    let mut namespaces = vec![&generator, &sink];
    let mut links = vec![(&generator, "out"), (&sink, "in")];
    if middle != Middle::Nothing {
        namespaces.insert(1, &dut);
        links.extend([(&dut, "in"), (&dut, "out")]);
    }
    for name in namespaces {
        plan.push(Step::AddNamespace { name: name.clone() });
        plan.push(Step::DisableIpv6 { namespace: name.clone() });
    }
    if middle == Middle::Nothing {
        plan.push(Step::AddVeth { a: from_generator, b: to_sink });
    } else {
        plan.push(Step::AddVeth { a: from_generator, b: end(&dut, "in", MAC_IN) });
        plan.push(Step::AddVeth { a: end(&dut, "out", MAC_OUT), b: to_sink });
    }
    if middle == Middle::Bridge {
        let ports = vec!["in".to_owned(), "out".to_owned()];
        plan.push(Step::AddBridge { namespace: Some(dut.clone()), name: "bridge".to_owned(), ports });
        links.push((&dut, "bridge"));
    }
    for (namespace, link) in links {
        plan.push(Step::SetUp { namespace: Some(namespace.clone()), link: link.to_owned() });
    }
    plan
}

/// A testbed that stands; it is removed when dropped, or by [`Testbed::remove`] with a message if that fails.
pub struct Testbed {
    journal: Journal,
    middle: Middle,
    generator: OwnedFd,
    dut: Option<OwnedFd>,
    sink: OwnedFd,
}

impl Testbed {
    /// Makes the testbed, every step journalled before it is done.
    ///
    /// # Errors
    /// The step that failed; what was done before is undone.
    pub fn build(mut journal: Journal, prefix: &str, middle: Middle) -> Result<Self> {
        for step in plan(prefix, middle).steps() {
            journal.apply(step)?;
        }
        let open = |role: &str| Namespace::new(&format!("{prefix}-{role}"))?.open();
        let dut = if middle == Middle::Nothing { None } else { Some(open("dut")?) };
        Ok(Self { middle, generator: open("gen")?, dut, sink: open("sink")?, journal })
    }

    /// Undoes every step.
    ///
    /// # Errors
    /// What could not be undone; `wiretail clean` tries again.
    pub fn remove(mut self) -> Result<()> {
        self.journal.undo_all()?;
        Ok(())
    }

    /// Where the load generator sends.
    pub fn source(&self) -> PortSpec<'_> {
        PortSpec { netns: Some(self.generator.as_fd()), interface: "out" }
    }

    /// Whether the ingress tap sees only what passes the queueing discipline.
    pub fn taps_the_sender(&self) -> bool {
        self.middle == Middle::Nothing
    }

    /// The device's ports, in and out; None without a device.
    pub fn ports(&self) -> Option<[PortSpec<'_>; 2]> {
        let netns: Option<BorrowedFd<'_>> = Some(self.dut.as_ref()?.as_fd());
        Some(["in", "out"].map(|interface| PortSpec { netns, interface }))
    }

    /// The ingress and the egress tap.
    pub fn taps(&self) -> [TapSpec<'_>; 2] {
        let pre = match &self.dut {
            Some(dut) => {
                TapSpec { netns: Some(dut.as_fd()), interface: "in", direction: Direction::In, tap: 0 }
            }
            None => {
                let netns = Some(self.generator.as_fd());
                TapSpec { netns, interface: "out", direction: Direction::Out, tap: 0 }
            }
        };
        let netns = Some(self.sink.as_fd());
        [pre, TapSpec { netns, interface: "in", direction: Direction::In, tap: 1 }]
    }
}
