//! The kernel's own forwarders where they are no part of the testbed: in a container or a virtual machine a script
//! sets them up, and tells what the links have counted when it gets SIGUSR1.

use rustix::process::Signal;

use super::forward;
use super::program::{Ask, Counting, Movers, Program, Site};

/// Told by the script when it has set everything up.
const READY: &str = "the kernel forwards";

/// A Linux bridge without spanning tree and multicast snooping. A guest's busybox has `brctl`, other systems `ip`.
pub fn bridge(site: &Site) -> Program {
    let (input, output) = site.links();
    let set_up = format!(
        "if command -v brctl >/dev/null; then\n\
         brctl addbr bridge && brctl addif bridge {input} && brctl addif bridge {output}\n\
         else\n\
         ip link add bridge type bridge stp_state 0 forward_delay 0 && \
         ip link set {input} master bridge && ip link set {output} master bridge\n\
         fi && echo 0 >/sys/class/net/bridge/bridge/multicast_snooping && ip link set bridge up"
    );
    script(site, &set_up)
}

/// Runs commands, then tells counters until it is ended.
fn script(site: &Site, set_up: &str) -> Program {
    let (input, output) = site.links();
    let sum = |counter: &str| {
        format!(
            "$(($(cat /sys/class/net/{input}/statistics/{counter}) + $(cat /sys/class/net/{output}/statistics/{counter})))"
        )
    };
    let (received, sent) = (sum("rx_packets"), sum("tx_packets"));
    let (dropped, failed) = (sum("rx_dropped"), sum("tx_dropped"));
    let text = format!(
        "PATH=$PATH:/wiretail/bin\n\
         {{\n{set_up}\n}} || exit 1\n\
         trap 'echo \"{{\\\"received\\\":{received},\\\"sent\\\":{sent},\\\"dropped\\\":{dropped},\\\"failed\\\":{failed}}}\"' USR1\n\
         trap 'exit 0' TERM INT\n\
         echo '{READY}'\n\
         while :; do sleep 1 & wait $!; done\n"
    );
    let mut program = Program::new(site, ["sh", "-c", &text].map(str::to_owned).to_vec());
    program.ready = READY.to_owned();
    program.movers = Movers::Itself;
    program.counting = Some(Counting::now(Ask::Signal(Signal::USR1), forward::counts));
    program
}
