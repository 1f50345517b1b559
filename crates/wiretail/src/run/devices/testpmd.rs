//! DPDK's own forwarder, `dpdk-testpmd` (DPDK Testpmd Application User Guide), between the links of a node.
//! Lines on its standard input request the counters and stop it.

use wiretail_schema::experiment::Trial;

use super::counts::Counts;
use super::eal;
use super::program::{Ask, Counting, Program, Site};

/// Returns the program of a trial.
pub fn program(trial: &Trial, site: &Site) -> Program {
    let mut argv = vec!["dpdk-testpmd".to_owned()];
    argv.extend(eal::arguments(site, trial.dut.pmd));
    let own = [
        "--".to_owned(),
        "--interactive".to_owned(),
        "--auto-start".to_owned(),
        format!("--forward-mode={}", trial.dut.forward_mode),
        format!("--burst={}", trial.dut.batch),
        "--nb-cores=1".to_owned(),
        "--total-num-mbufs=8192".to_owned(),
        "--no-mlockall".to_owned(),
    ];
    argv.extend(own);
    let mut program = Program::new(site, argv);
    program.ready = "Start automatic packet forwarding".to_owned();
    program.movers = eal::workers();
    program.by_the_block = true;
    program.reads = eal::drivers();
    program.stop = Ask::Line("quit".to_owned());
    let ask = Ask::Line("show port stats all".to_owned());
    let ports = site.pairs.len() * 2;
    program.counting = Some(Counting::now(ask, move |text| counts(text, ports)));
    program
}

/// Sums the blocks that `show port stats all` prints, one per port.
fn counts(text: &str, ports: usize) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut whole = 0;
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[1].parse::<u64>() else { continue };
        match pair[0] {
            "RX-packets:" => counts.received += number,
            "RX-missed:" | "RX-nombuf:" => counts.dropped += number,
            "TX-errors:" => counts.failed += number,
            "TX-packets:" => {
                counts.sent += number;
                whole += 1;
            }
            _ => {}
        }
    }
    // The last line of a block has the port's rate. The next prompt shows that the output is complete.
    (whole == ports && text.trim_end().ends_with("testpmd>")).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_complete_statistics() {
        let block = |rx: u64, tx: u64| {
            format!(
                "  ### NIC statistics for port ###\n  RX-packets: {rx}  RX-missed: 1  RX-bytes:  5\n  RX-errors: 0\n  \
                 RX-nombuf:  2\n  TX-packets: {tx}  TX-errors: 3  TX-bytes:  0\n\n  Throughput (since last show)\n"
            )
        };
        let text = block(10, 20) + &block(30, 40);
        assert_eq!(counts(&text, 2), None);
        let whole = text + "testpmd> ";
        assert_eq!(
            counts(&whole, 2),
            Some(Counts { received: 40, sent: 60, dropped: 6, failed: 6, ..Counts::default() })
        );
        assert_eq!(counts(&(block(1, 1) + "testpmd> "), 2), None);
    }
}
