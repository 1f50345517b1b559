//! Snort 3 inline between the links of a node (Snort 3 User Manual: DAQ Configuration and Modules). It must
//! be installed manually, because Debian has no package of Snort 3. It prints its counters on SIGUSR1.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use rustix::process::Signal;
use wiretail_schema::experiment::{IdsCapture, PollModeDriver, RuleSet, Trial};

use super::counts::Counts;
use super::eal;
use super::program::{Ask, Counting, Movers, Program, Site};

/// Returns the program of a trial.
///
/// # Errors
/// Returns an error if Snort 3 is not installed, or if the rules are missing or are not rules for Snort.
pub fn program(trial: &Trial, site: &Site) -> Result<Program> {
    installed("snort")?;
    configured(trial, site)
}

/// Checks that the program with this name is Snort 3.
fn installed(name: &str) -> Result<()> {
    let Ok(told) = Command::new(name).arg("-V").output() else {
        bail!(
            "snort 3 is not installed: no `{name}` is in PATH; `wiretail setup snort` prints how to install \
             it"
        );
    };
    let text = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    match version(&text) {
        Some(version) if version.starts_with("3.") => Ok(()),
        Some(version) => {
            bail!(
                "`{name}` is version {version}; expected Snort 3: `wiretail setup snort` prints how to \
                 install it"
            )
        }
        None => bail!(
            "`{name} -V` reports no version; expected Snort 3: `wiretail setup snort` prints how to install \
             it"
        ),
    }
}

/// Returns the word after "Version".
fn version(text: &str) -> Option<&str> {
    text.split_whitespace().skip_while(|word| *word != "Version").nth(1)
}

fn configured(trial: &Trial, site: &Site) -> Result<Program> {
    let rules = match &trial.dut.rules {
        RuleSet::None => None,
        set @ (RuleSet::Packaged | RuleSet::Emerging) => {
            bail!("dut.rules = \"{set}\" is for Suricata; snort3 expects \"none\" or a file of Snort's rules")
        }
        RuleSet::File(file) if Path::new(file).is_file() => Some(file.as_str()),
        RuleSet::File(file) => bail!("dut.rules = \"{file}\": no such file; expected a rule file"),
    };
    let dpdk = trial.dut.capture == IdsCapture::Dpdk;
    let mut program = Program::new(site, Vec::new());
    let config = format!("{}-snort.lua", program.name);
    let (input, output) = site.links();
    let links = if dpdk { "dpdk0:dpdk1".to_owned() } else { format!("{input}:{output}") };
    let daq = if dpdk { "dpdk" } else { "afpacket" };
    let folder = site.directory.display().to_string();
    let argv =
        ["snort", "-c", &site.file(&config), "-Q", "--daq", daq, "-i", &links, "-z", "1", "-k", "none", "-l"];
    program.argv = argv.into_iter().chain([folder.as_str()]).map(str::to_owned).collect();
    if dpdk {
        let arguments = format!("dpdk_args={}", eal::arguments(site, PollModeDriver::AfPacket).join(" "));
        program.argv.extend(["--daq-var".to_owned(), arguments]);
    }
    program.files = vec![(config, configuration(rules, site.core))];
    program.ready = "Commencing packet processing".to_owned();
    // With DPDK, the packet thread polls. If it had real-time priority, no other thread of the program could
    // run on its core, not even the thread that ends the program.
    program.movers = if dpdk { Movers::Itself } else { Movers::Everything };
    program.counting = Some(Counting::now(Ask::Signal(Signal::USR1), counts));
    Ok(program)
}

/// Returns the configuration in Lua. It sets the packet thread's core and the rules.
fn configuration(rules: Option<&str>, core: Option<u32>) -> String {
    let place = core.map_or_else(String::new, |core| {
        format!("process = {{ threads = {{ {{ thread = 0, cpuset = '{core}' }} }} }}\n")
    });
    let rules = rules.map_or_else(String::new, |file| {
        format!(
            "ips = {{ mode = 'inline', include = '{}' }}\nalert_fast = {{ file = true }}\n",
            file.replace('\\', "\\\\").replace('\'', "\\'")
        )
    });
    format!(
        "-- Written for this trial.\nnetwork = {{ checksum_eval = 'none', checksum_drop = 'none' }}\n{place}{rules}"
    )
}

/// Parses the block "daq" of the packet statistics. Counters that are zero are not printed.
fn counts(text: &str) -> Option<Counts> {
    let (_, block) = text.rsplit_once("Packet Statistics")?;
    // The block is complete once another block follows it.
    let (_, daq) = block.split_once("daq")?;
    let (daq, _) = daq.split_once("-----")?;
    let number = |name: &str| {
        let line = daq.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.replace(',', "").parse::<u64>().ok())
    };
    let sum = |names: &[&str]| names.iter().filter_map(|name| number(name)).sum();
    Some(Counts {
        received: number("analyzed").unwrap_or(0),
        sent: sum(&["allow", "replace", "whitelist", "ignore"]),
        dropped: sum(&["dropped", "outstanding"]),
        filtered: sum(&["block", "blacklist"]),
        failed: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::experiment::Experiment;

    /// Statistics in the format of the manual; the numbers are made up.
    const STATISTICS: &str = "--------------------------------------------------\nPacket Statistics\n\
        --------------------------------------------------\ndaq\n                 received: 10037\n                 \
        analyzed: 10030\n                  dropped: 7\n                    allow: 10012\n                  replace: 1\n\
                            block: 17\n                     idle: 3\n                 rx_bytes: 1003700\n\
        --------------------------------------------------\ncodec\n                    total: 10030\n";

    fn site() -> Site {
        Site {
            node: 1,
            pairs: vec![("in".to_owned(), "out".to_owned())],
            both_directions: true,
            core: Some(1),
            housekeeping: Some(0),
            directory: "/run/there".into(),
        }
    }

    fn trial(dut: &str) -> Trial {
        let text = format!(
            "title = \"t\"\nseed = 1\n[dut]\nkind = \"snort3\"\n{dut}\n[traffic]\nrate = \"1 kpps\"\n"
        );
        Experiment::parse(&text).unwrap().trials().remove(0)
    }

    #[test]
    fn reads_complete_statistics() {
        let expected = Counts { received: 10_030, sent: 10_013, dropped: 7, filtered: 17, failed: 0 };
        assert_eq!(counts(STATISTICS), Some(expected));
        let cut = &STATISTICS[..STATISTICS.find("block").unwrap()];
        assert_eq!(counts(cut), None);
        // The last of several reports is used.
        let none = STATISTICS.replace("10030", "9").replace("10012", "8");
        assert_eq!(counts(&(STATISTICS.to_owned() + &none)).unwrap().received, 9);
    }

    #[test]
    fn command_line_names_module_links_and_core() {
        let program = configured(&trial(""), &site()).unwrap();
        let line = program.argv.join(" ");
        assert!(line.starts_with("snort -c /run/there/dut-snort.lua -Q --daq afpacket -i in:out"), "{line}");
        assert!(program.files[0].1.contains("cpuset = '1'") && !program.files[0].1.contains("ips"));
        let line = configured(&trial("capture = \"dpdk\""), &site()).unwrap().argv.join(" ");
        assert!(
            line.contains("--daq dpdk -i dpdk0:dpdk1") && line.contains("net_af_packet1,iface=out"),
            "{line}"
        );
    }

    #[test]
    fn accepts_only_snort_rules() {
        let refused = |rules: &str| {
            let program = configured(&trial(&format!("rules = \"{rules}\"")), &site());
            program.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused("packaged").contains("is for Suricata"));
        assert!(refused("/no/such.rules").contains("/no/such.rules"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let program = configured(&trial(&format!("rules = \"{}\"", file.path().display())), &site()).unwrap();
        assert!(program.files[0].1.contains(&format!("include = '{}'", file.path().display())));
    }

    #[test]
    fn missing_program_error_names_next_step() {
        let error = installed("no-such-snort").unwrap_err().to_string();
        assert!(
            error.contains("snort 3 is not installed") && error.contains("wiretail setup snort"),
            "{error}"
        );
        assert_eq!(version("   ,,_     -*> Snort++ <*-\n  o\"  )~   Version 3.1.84.0\n"), Some("3.1.84.0"));
        assert!(installed("true").unwrap_err().to_string().contains("no version"));
    }
}
