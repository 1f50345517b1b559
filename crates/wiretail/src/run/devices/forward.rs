//! Describes Wiretail's own forwarders (`wiretail forward`) as programs: the DPDK forwarder, the XDP
//! forwarder, and the skeleton if it does not run as a thread. They print their counters on SIGUSR1.

use anyhow::{Context, Result};
use rustix::process::Signal;
use wiretail_schema::experiment::{DutKind, Trial};

use super::counts::Counts;
use super::eal;
use super::program::{Ask, Counting, Movers, Program, Site};
use crate::traffic::live::LOOP_THREAD;

/// Returns the program of a trial.
///
/// # Errors
/// Returns an error if the path of Wiretail's own executable is unknown.
pub fn program(trial: &Trial, site: &Site) -> Result<Program> {
    let dut = &trial.dut;
    let own = std::env::current_exe().context("the path of this executable is not known")?;
    let (input, output) = site.links();
    let mut argv = vec![own.display().to_string()];
    argv.extend(["forward", input, output, "--json"].map(str::to_owned));
    if site.both_directions {
        argv.push("--both-directions".to_owned());
    }
    let (socket, movers) = match dut.kind {
        DutKind::DpdkL2fwd => ("dpdk", loops()),
        DutKind::XdpRedirect => ("xdp-redirect", Movers::Itself),
        // The skeleton is the only other forwarder of this executable.
        _ => (dut.socket.name(), loops()),
    };
    argv.extend(["--socket", socket].map(str::to_owned));
    if dut.kind != DutKind::XdpRedirect {
        argv.extend(site.core.map(|core| format!("--cpu={core}")));
        argv.extend(["--batch".to_owned(), dut.batch.to_string()]);
    }
    if dut.kind == DutKind::DpdkL2fwd {
        argv.extend(["--pmd", dut.pmd.name()].map(str::to_owned));
        for (option, span) in [("work", dut.work), ("coalesce", dut.coalesce)] {
            argv.extend((span.ns > 0).then(|| format!("--{option}={}ns", span.ns)));
        }
    }
    if dut.kind == DutKind::Skeleton {
        argv.extend(["--release", dut.release.name()].map(str::to_owned));
    }
    let mut program = Program::new(site, argv);
    program.movers = movers;
    if dut.kind == DutKind::DpdkL2fwd {
        program.reads = eal::drivers();
    }
    program.ready = "forwarding from".to_owned();
    program.counting = Some(Counting::now(Ask::Signal(Signal::USR1), counts));
    Ok(program)
}

/// Selects the thread that forwards packets.
fn loops() -> Movers {
    Movers::Threads(vec![LOOP_THREAD.to_owned()])
}

/// Parses the last complete line, a JSON object with the counters.
pub fn counts(text: &str) -> Option<Counts> {
    let whole = text.rsplit_once('\n')?.0;
    let told: serde_json::Value =
        whole.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok())?;
    let number = |name: &str| told.get(name).and_then(serde_json::Value::as_u64);
    Some(Counts {
        received: number("received")?,
        sent: number("sent")?,
        dropped: number("dropped").unwrap_or(0),
        failed: number("failed").unwrap_or(0),
        ..Counts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counters_from_complete_lines() {
        assert_eq!(counts("{\"received\":7,\"se"), None);
        let text = "forwarding\n{\"received\":7,\"sent\":6,\"failed\":1}\n";
        assert_eq!(counts(text), Some(Counts { received: 7, sent: 6, failed: 1, ..Counts::default() }));
    }
}
