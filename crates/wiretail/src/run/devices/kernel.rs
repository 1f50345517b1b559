//! The kernel's own forwarders in a container or a virtual machine. The testbed cannot set them up there.
//! Instead, a script sets up the forwarder and prints the counters of the links on SIGUSR1.

use rustix::process::Signal;

use super::forward;
use super::program::{Ask, Counting, Movers, Program, Site};

/// Line that the script prints when setup is complete.
const READY: &str = "the kernel forwards";

/// Returns a program that sets up a Linux bridge without spanning tree or multicast snooping. It uses `brctl`
/// if available, as in a guest's busybox, and `ip` otherwise.
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

/// Returns a script that runs the setup commands and then prints counters on request until it is stopped.
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
