//! Suricata 7 as an inline intrusion prevention system between the links of a node (Suricata User Guide:
//! Setting up IPS/inline for Linux; DPDK capture). This module generates a configuration that contains only
//! the settings that a trial needs.
//!
//! Suricata's counters are exact only when it ends, because its threads update them every three seconds. They
//! are therefore read from the last statistics record that Suricata writes. Suricata counts the probes as
//! packets of an unknown ethertype, because they are not IPv4, and this count is subtracted.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use wiretail_host::CoreSet;
use wiretail_schema::experiment::{IdsCapture, PollModeDriver, RuleSet, Trial};

use super::counts::Counts;
use super::eal;
use super::program::{Ask, Counting, Movers, Program, Site};
use crate::setup::parts::EMERGING_RULES;

/// Folder in which Suricata's package installs its event rules.
const PACKAGED_RULES: &str = "/etc/suricata/rules";
/// Capacity of a link's ring, in packets.
const RING_PACKETS: u32 = 8192;

/// Returns the program of a trial.
///
/// # Errors
/// Returns an error if the rules are missing or the capture method does not support this trial.
pub fn program(trial: &Trial, site: &Site) -> Result<Program> {
    let dpdk = trial.dut.capture == IdsCapture::Dpdk;
    if dpdk && site.both_directions && trial.host.fifo {
        bail!(
            "dut.capture = \"dpdk\" with traffic.directions = \"both\" starts two polling threads in Suricata. If \
             two polling threads with real-time priority share a core, only one of them runs; set host.fifo = \
             false, or dut.capture = \"af-packet\""
        );
    }
    let rules = rule_files(&trial.dut.rules)?;
    let mut program = Program::new(site, Vec::new());
    let name = program.name.clone();
    let config = format!("{name}-suricata.yaml");
    let text = configuration(&name, site, dpdk, &rules);
    let folder = site.directory.display().to_string();
    let capture = if dpdk { "--dpdk" } else { "--af-packet" };
    program.argv =
        ["suricata", "-c", &site.file(&config), capture, "-l", &folder].map(str::to_owned).to_vec();
    program.files = vec![(config, text)];
    program.reads = rules.iter().map(PathBuf::from).collect();
    program.ready = "Engine started".to_owned();
    program.movers = Movers::Threads(vec![if dpdk && !site.both_directions {
        // Name of the thread that receives on `in`. Suricata shortens net_af_packet0 in this way.
        "W#01-net_..ket0".to_owned()
    } else {
        "W#".to_owned()
    }]);
    let statistics = site.directory.join(format!("{name}-eve.json"));
    program.counting = Some(Counting::now(Ask::End(statistics), counts));
    if !rules.is_empty() {
        // Some rules of the public rule set are not compatible with this version of Suricata. In any other
        // rule set, every rule must load.
        let all = trial.dut.rules != RuleSet::Emerging;
        program.remark = Some(Box::new(move |log| loaded(log, all)));
    }
    Ok(program)
}

/// Returns the files of a rule set.
fn rule_files(rules: &RuleSet) -> Result<Vec<String>> {
    let (file, next) = match rules {
        RuleSet::None => return Ok(Vec::new()),
        RuleSet::Packaged => return packaged(Path::new(PACKAGED_RULES)),
        RuleSet::Emerging => (EMERGING_RULES, "`wiretail setup suricata-rules` downloads it"),
        RuleSet::File(file) => (file.as_str(), "expected a rule file"),
    };
    if !Path::new(file).is_file() {
        bail!("dut.rules = \"{rules}\": {file} does not exist; {next}");
    }
    Ok(vec![file.to_owned()])
}

/// Returns the rule files of Suricata's package, in order.
fn packaged(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).ok().into_iter().flatten().flatten();
    let mut files: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
    files.retain(|file| file.ends_with(".rules"));
    files.sort();
    if files.is_empty() {
        bail!(
            "{}: no rules found; `wiretail setup suricata` installs Suricata with its event rules",
            folder.display()
        );
    }
    Ok(files)
}

/// Summarizes the lines on loaded rules in Suricata's log. If `all` is set, a rejected rule is an error.
fn loaded(log: &str, all: bool) -> Result<String> {
    let line = log.lines().find(|line| line.contains("rules successfully loaded"));
    let before = |word: &str| line?.split(word).next()?.split_whitespace().last()?.parse::<u64>().ok();
    // If no rule is loaded, Suricata's message has another format.
    let (good, bad) = before(" rules successfully").zip(before(" rules failed")).unwrap_or_default();
    if good == 0 || all && bad > 0 {
        let why = log
            .lines()
            .filter(|line| line.starts_with("Error: detect") || line.starts_with("Warning: detect"));
        let why: Vec<&str> = why.take(3).collect();
        let refused = if bad > 0 { format!(" and rejected {bad}") } else { String::new() };
        bail!("Suricata loaded {good} rules{refused}:\n    {}", why.join("\n    "));
    }
    let refused = if bad > 0 { format!(", {bad} rejected") } else { String::new() };
    Ok(format!("Suricata loaded {good} rules{refused}"))
}

/// Parses the counters of the last statistics record in the event log.
fn counts(text: &str) -> Option<Counts> {
    let last = text.lines().rev().find(|line| line.contains("\"event_type\":\"stats\""))?;
    let record: serde_json::Value = serde_json::from_str(last).ok()?;
    let number = |path: &str| record["stats"].pointer(path).and_then(serde_json::Value::as_u64);
    let optional = |path: &str| number(path).unwrap_or(0);
    let probes = optional("/decoder/unknown_ethertype");
    let failed = optional("/capture/afpacket/send_errors") + optional("/capture/tx_errors");
    let lost = ["/capture/kernel_drops", "/capture/dpdk/imissed", "/capture/dpdk/no_mbufs"].map(optional);
    Some(Counts {
        received: number("/decoder/pkts")?.saturating_sub(probes),
        sent: number("/ips/accepted")?.saturating_sub(probes + failed),
        dropped: lost.iter().sum(),
        filtered: number("/ips/blocked")? + optional("/ips/rejected"),
        failed,
    })
}

/// Returns the configuration in YAML.
fn configuration(name: &str, site: &Site, dpdk: bool, rules: &[String]) -> String {
    let rules: String = rules.iter().map(|file| format!("  - \"{file}\"\n")).collect();
    let rules = if rules.is_empty() { " []\n".to_owned() } else { format!("\n{rules}") };
    let capture = if dpdk { dpdk_section(site) } else { af_packet_section(site) };
    let threads = threading(site, dpdk);
    format!(
        r#"%YAML 1.1
---
# Written for this trial.
rule-files:{rules}default-rule-path: "/"
# What can't be inspected passes: only rules drop.
exception-policy: ignore
capture:
  checksum-validation: none
stream:
  checksum-validation: no
stats:
  enabled: yes
  interval: 60
outputs:
  - fast:
      enabled: yes
      filename: {name}-fast.log
  - eve-log:
      enabled: yes
      filetype: regular
      filename: {name}-eve.json
      types:
        - drop:
            alerts: yes
            flows: all
        - stats:
            totals: yes
            threads: no
logging:
  default-log-level: info
  outputs:
    - console:
        enabled: yes
unix-command:
  enabled: no
{threads}{capture}{SETS}"#
    )
}

/// Settings that rule sets require: names of networks and ports, and two parsers that are off by default. The
/// home network is the sink's network.
const SETS: &str = r#"vars:
  address-groups:
    HOME_NET: "[198.19.0.0/16]"
    EXTERNAL_NET: "!$HOME_NET"
    HTTP_SERVERS: "$HOME_NET"
    SMTP_SERVERS: "$HOME_NET"
    SQL_SERVERS: "$HOME_NET"
    DNS_SERVERS: "$HOME_NET"
    TELNET_SERVERS: "$HOME_NET"
    AIM_SERVERS: "$EXTERNAL_NET"
    DC_SERVERS: "$HOME_NET"
    DNP3_SERVER: "$HOME_NET"
    DNP3_CLIENT: "$HOME_NET"
    MODBUS_CLIENT: "$HOME_NET"
    MODBUS_SERVER: "$HOME_NET"
    ENIP_CLIENT: "$HOME_NET"
    ENIP_SERVER: "$HOME_NET"
  port-groups:
    HTTP_PORTS: "80"
    SHELLCODE_PORTS: "!80"
    ORACLE_PORTS: 1521
    SSH_PORTS: 22
    DNP3_PORTS: 20000
    MODBUS_PORTS: 502
    FILE_DATA_PORTS: "[$HTTP_PORTS,110,143]"
    FTP_PORTS: 21
    GENEVE_PORTS: 6081
    VXLAN_PORTS: 4789
    TEREDO_PORTS: 3544
app-layer:
  protocols:
    modbus:
      enabled: yes
      detection-ports:
        dp: 502
    dnp3:
      enabled: yes
      detection-ports:
        dp: 20000
"#;

/// Assigns the packet threads to the device's core and all other threads to the housekeeping core. With DPDK,
/// each of the two packet threads needs a core that no other thread is assigned to. The thread of the reverse
/// direction gets the housekeeping core. The other threads are assigned a core that does not exist, so they
/// stay where they were started, which is also the housekeeping core.
fn threading(site: &Site, dpdk: bool) -> String {
    let core = site.core.unwrap_or(0);
    let mut rest = site.housekeeping.unwrap_or(core);
    let mut workers = vec![core];
    if dpdk && rest != core {
        workers.push(rest);
        workers.sort_unstable();
        rest = beyond_all(&workers);
    }
    format!(
        "threading:\n  set-cpu-affinity: yes\n  cpu-affinity:\n    - management-cpu-set:\n        cpu: [ {rest} ]\n    - \
         worker-cpu-set:\n        cpu: {workers:?}\n        mode: exclusive\n"
    )
}

/// Returns the first core number that this machine cannot have.
fn beyond_all(workers: &[u32]) -> u32 {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let possible = CoreSet::parse(possible.trim()).unwrap_or_default();
    possible.cores().iter().chain(workers).max().map_or(1, |last| last + 1)
}

/// Configures packet sockets with rings of version 2, because rings of version 3 deliver packets only when a
/// block is full.
fn af_packet_section(site: &Site) -> String {
    let (input, output) = site.links();
    let link = |number: u32, from: &str, to: &str| {
        format!(
            "  - interface: {from}\n    threads: 1\n    cluster-id: {number}\n    cluster-type: cluster_flow\n    defrag: \
             no\n    use-mmap: yes\n    tpacket-v3: no\n    ring-size: {RING_PACKETS}\n    checksum-checks: no\n    \
             copy-mode: ips\n    copy-iface: {to}\n"
        )
    };
    format!("af-packet:\n{}{}", link(97, input, output), link(98, output, input))
}

/// Configures DPDK with a virtual device per link. In the order of the interfaces, each thread takes the
/// lowest unused core of its set. The thread of `in` must get the device's core.
fn dpdk_section(site: &Site) -> String {
    let devices = eal::devices(site, PollModeDriver::AfPacket);
    let devices: Vec<String> = devices.iter().map(|device| format!("'{device}'")).collect();
    let link = |from: &str, to: &str| {
        format!(
            "    - interface: {from}\n      threads: 1\n      promisc: true\n      multicast: false\n      checksum-checks: \
             false\n      mempool-size: 8191\n      mempool-cache-size: 255\n      rx-descriptors: 1024\n      \
             tx-descriptors: 1024\n      copy-mode: ips\n      copy-iface: {to}\n"
        )
    };
    let names = ["net_af_packet0", "net_af_packet1"];
    let (there, back) = (link(names[0], names[1]), link(names[1], names[0]));
    let links = if site.housekeeping < site.core { back + &there } else { there + &back };
    format!(
        "dpdk:\n  eal-params:\n    proc-type: primary\n    no-pci: ''\n    no-huge: ''\n    no-shconf: ''\n    no-telemetry: \
         ''\n    m: 256\n    vdev: [{}]\n  interfaces:\n{links}",
        devices.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            node: 1,
            pairs: vec![("in".to_owned(), "out".to_owned())],
            both_directions: false,
            core: Some(1),
            housekeeping: Some(0),
            directory: "/run/there".into(),
        }
    }

    #[test]
    fn reads_counters_of_last_record_without_probes() {
        let record = |packets: u64| {
            format!(
                r#"{{"timestamp":"t","event_type":"stats","stats":{{"capture":{{"kernel_packets":{},"kernel_drops":9,"afpacket":{{"send_errors":2}}}},"decoder":{{"pkts":{packets},"unknown_ethertype":5}},"ips":{{"accepted":{},"blocked":10,"rejected":0}}}}}}"#,
                packets + 9,
                packets - 10
            )
        };
        let drop = r#"{"event_type":"drop","drop":{"reason":"rules"}}"#;
        let text = format!("{}\n{drop}\n{}\n{drop}\n", record(100), record(1015));
        let expected = Counts { received: 1010, sent: 998, dropped: 9, filtered: 10, failed: 2 };
        assert_eq!(counts(&text), Some(expected));
        assert_eq!(counts(drop), None);
        assert_eq!(counts("{\"event_type\":\"stats\",\"sta"), None);
    }

    #[test]
    fn reports_rejected_rules() {
        let log = |bad: u64| {
            format!(
                "Error: detect: error parsing signature \"drop x\"\nInfo: detect: 2 rule files processed. 380 rules \
                 successfully loaded, {bad} rules failed, 0\nNotice: threads: Engine started.\n"
            )
        };
        assert_eq!(loaded(&log(0), true).unwrap(), "Suricata loaded 380 rules");
        assert_eq!(loaded(&log(3), false).unwrap(), "Suricata loaded 380 rules, 3 rejected");
        let error = loaded(&log(3), true).unwrap_err().to_string();
        assert!(error.contains("rejected 3") && error.contains("drop x"), "{error}");
        let none = "Error: detect: error parsing signature \"x\"\nNotice: threads: Engine started.\n";
        let error = loaded(none, false).unwrap_err().to_string();
        assert!(error.contains("loaded 0 rules") && error.contains("signature \"x\""), "{error}");
    }

    #[test]
    fn configuration_names_rules_links_and_cores() {
        let text = configuration("dut", &site(), false, &["/a.rules".to_owned()]);
        assert!(
            text.contains("rule-files:\n  - \"/a.rules\"\n") && text.contains("copy-iface: out"),
            "{text}"
        );
        assert!(text.contains("worker-cpu-set:\n        cpu: [1]") && text.contains("cpu: [ 0 ]"), "{text}");
        let text = configuration("dut2", &site(), true, &[]);
        assert!(text.contains("rule-files: []\n") && text.contains("dut2-eve.json"), "{text}");
        assert!(text.contains("cpu: [0, 1]") && text.contains("net_af_packet1,iface=out"), "{text}");
        // The second core belongs to the second interface.
        assert!(text.find("interface: net_af_packet1") < text.find("interface: net_af_packet0"), "{text}");
    }

    #[test]
    fn missing_rules_are_named() {
        let error = rule_files(&RuleSet::File("/no/such.rules".to_owned())).unwrap_err().to_string();
        assert!(error.contains("/no/such.rules does not exist"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        assert!(packaged(folder.path()).unwrap_err().to_string().contains("wiretail setup suricata"));
        assert!(rule_files(&RuleSet::None).unwrap().is_empty());
    }
}
