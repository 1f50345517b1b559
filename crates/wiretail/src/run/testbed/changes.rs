//! All changes that a trial makes to the host, in order of execution. A run applies them; a dry run prints
//! them.
//!
//! The order follows from what depends on what: kernel settings come before the links that inherit them,
//! and commands of the user come last, on a host that is otherwise ready.

use std::path::{Path, PathBuf};

use anyhow::Result;
use wiretail_host::{CommandSpec, Cores, JOURNAL_FOLDER, Plan, Step};
use wiretail_schema::experiment::Trial;
use wiretail_schema::units::cores::CoreSet;

use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::profile;
use crate::run::testbed::sysctl::Placed;
use crate::run::testbed::topology::Topology;

/// The changes that a trial makes to the host.
pub struct Changes<'a> {
    trial: &'a Trial,
    /// Name of the run in its journal.
    run: &'a str,
    sysctls: Placed,
}

impl<'a> Changes<'a> {
    /// Determines the changes of a trial in the run with this name in its journal.
    pub fn of(trial: &'a Trial, run: &'a str) -> Self {
        Self { trial, run, sysctls: Placed::of(&trial.host.sysctl) }
    }

    /// Returns whether all kernel settings are certain to be listed where they will be written. They are not
    /// if this process may not look into a network namespace.
    pub fn are_certain(&self) -> bool {
        self.sysctls.is_certain
    }

    /// Returns the steps that build the testbed. `needs` are made before everything else but kernel settings.
    pub fn testbed(&self, topology: &Topology, needs: Plan) -> Plan {
        let nodes = topology.nodes(self.run);
        let mut plan = Plan::new();
        plan.extend(self.sysctls.of_host());
        plan.extend(needs.steps().iter().cloned());
        let topology = topology.plan(self.run);
        let is_namespace = |step: &Step| {
            matches!(step, Step::PrepareNamespaces | Step::AddNamespace { .. } | Step::DisableIpv6 { .. })
        };
        let links = topology.steps().iter().position(|step| !is_namespace(step));
        let (namespaces, links) = topology.steps().split_at(links.unwrap_or(topology.steps().len()));
        plan.extend(namespaces.iter().cloned());
        plan.extend(self.sysctls.of_new_links(&nodes));
        plan.extend(links.iter().cloned());
        plan.extend(self.sysctls.of_namespaces(&nodes, &topology));
        plan
    }

    /// Returns the steps that apply the profile and isolate the cores. A file that `host.sysctl` sets keeps
    /// that value. `stays` is a process that is not moved.
    ///
    /// # Errors
    /// Returns an error if no core can be isolated, or the kernel does not list its cores.
    pub fn settings(&self, assignment: &CpuAssignment, stays: Option<i32>) -> Result<Plan> {
        let mut steps = profile::steps(self.trial, assignment)?;
        if self.trial.host.isolate {
            let has_profile = profile::of(self.trial).is_some();
            steps.extend(assignment.isolation(self.run, stays, has_profile)?.steps().iter().cloned());
        }
        let set: Vec<Step> = self.sysctls.of_host().collect();
        let is_set = |path: &Path| {
            set.iter().any(|step| matches!(step, Step::WriteFile { path: own, .. } if own == path))
        };
        steps.retain(|step| !matches!(step, Step::WriteFile { path, .. } if is_set(path)));
        let mut plan = Plan::new();
        plan.extend(steps);
        Ok(plan)
    }

    /// Returns the steps that run the user's commands; none without commands. The commands write their output
    /// to `directory`, which is an absolute path.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list its cores.
    pub fn commands(
        &self,
        topology: &Topology,
        assignment: Option<&CpuAssignment>,
        directory: &Path,
    ) -> Result<Plan> {
        let host = &self.trial.host;
        let mut plan = Plan::new();
        if host.before.0.is_none() && host.after.0.is_none() {
            return Ok(plan);
        }
        let cores = match assignment {
            Some(assignment) => Cores::read(Path::new("/"))?.usable.without(&assignment.quiet),
            None => CoreSet::default(),
        };
        let group = Path::new(JOURNAL_FOLDER).join(format!("{}-commands", self.run));
        let device = topology.nodes(self.run).into_iter().nth(1).unwrap_or_default();
        let mut env = vec![
            ("WIRETAIL_RUN".to_owned(), self.run.to_owned()),
            ("WIRETAIL_NAMESPACE".to_owned(), device),
            ("WIRETAIL_TRIAL".to_owned(), directory.display().to_string()),
        ];
        let core = assignment.map(|assignment| assignment.device);
        env.extend(core.map(|core| ("WIRETAIL_CORE".to_owned(), core.to_string())));
        let command = |name: &str, line: &String| {
            Box::new(CommandSpec {
                key: format!("host.{name}"),
                line: line.clone(),
                directory: PathBuf::from(&host.directory.0),
                log: directory.join(format!("{name}.log")),
                env: env.clone(),
                cores: cores.clone(),
                group: group.clone(),
            })
        };
        plan.push(Step::AddCommandGroup { path: group.clone() });
        if let Some(line) = &host.after.0 {
            plan.push(Step::RunAtEnd { command: command("after", line) });
        }
        if let Some(line) = &host.before.0 {
            plan.push(Step::RunCommand { command: command("before", line) });
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::experiment::Experiment;

    fn trial(host: &str) -> Trial {
        let text = format!(
            "title = \"t\"\nseed = 1\n[dut]\nkind = \"bridge\"\n[traffic]\nrate = \"1 kpps\"\n[host]\n{host}\n"
        );
        Experiment::parse(&text).expect("an experiment").trials().remove(0)
    }

    fn lines(plan: &Plan) -> Vec<String> {
        plan.steps().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_come_before_what_they_affect() {
        let trial = trial(
            "sysctl = \"vm.swappiness = 7, net.ipv4.conf.default.rp_filter=2, net.ipv4.conf.in.rp_filter=1\"",
        );
        let changes = Changes::of(&trial, "r");
        let lines = lines(&changes.testbed(&Topology::of(&trial), Plan::new()));
        let place = |text: &str| {
            lines.iter().position(|line| line == text).unwrap_or_else(|| panic!("{text}: {lines:#?}"))
        };
        assert_eq!(place("write \"7\" to /proc/sys/vm/swappiness"), 0);
        let links = lines.iter().position(|line| line.starts_with("add veth")).expect("a link");
        for node in ["gen", "dut1", "sink"] {
            let added = place(&format!("add network namespace r-{node}"));
            let inherited = place(&format!("set r-{node}:net/ipv4/conf/default/rp_filter to 2"));
            assert!(added < inherited && inherited < links, "{lines:#?}");
        }
        // The load generator has no link of this name.
        assert!(place("set r-dut1:net/ipv4/conf/in/rp_filter to 1") > links);
        assert!(place("set r-sink:net/ipv4/conf/in/rp_filter to 1") > links);
        assert!(!lines.iter().any(|line| line.contains("r-gen:net/ipv4/conf/in")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("write \"2\"")), "not on the host: {lines:#?}");
    }

    #[test]
    fn user_setting_replaces_that_of_isolation() {
        let path = "/proc/sys/kernel/sched_rt_runtime_us";
        let writes = |host: &str| {
            let trial = trial(host);
            let changes = Changes::of(&trial, "r");
            let assignment = CpuAssignment {
                housekeeping: 0,
                generator: 1,
                device: 1,
                reader: 0,
                quiet: CoreSet::default(),
                isolated: CoreSet::default(),
                fifo: true,
            };
            let settings = changes.settings(&assignment, None).expect("steps");
            let testbed = changes.testbed(&Topology::of(&trial), Plan::new());
            let all = lines(&testbed).into_iter().chain(lines(&settings));
            all.filter(|line| line.contains(path)).collect::<Vec<_>>()
        };
        assert_eq!(writes(""), [format!("write \"-1\" to {path}, if allowed")]);
        let own = writes("sysctl = \"kernel.sched_rt_runtime_us = 900000\"");
        assert_eq!(own, [format!("write \"900000\" to {path}")]);
    }

    #[test]
    fn commands_are_listed_in_order_of_execution() {
        let list = |host: &str| {
            let trial = trial(host);
            let plan = Changes::of(&trial, "r").commands(&Topology::of(&trial), None, Path::new("/out"));
            plan.expect("steps").steps().to_vec()
        };
        assert!(list("sysctl = \"none\"").is_empty());
        let steps = list("before = \"b &\"\nafter = \"a\"\ndirectory = \"/d\"");
        let [
            Step::AddCommandGroup { path },
            Step::RunAtEnd { command: after },
            Step::RunCommand { command: before },
        ] = &steps[..]
        else {
            panic!("{steps:#?}")
        };
        assert_eq!(path, Path::new("/run/wiretail/r-commands"));
        assert_eq!((after.line.as_str(), before.line.as_str()), ("a", "b &"));
        assert_eq!((&before.group, before.directory.as_path()), (path, Path::new("/d")));
        assert_eq!(
            (before.log.as_path(), after.log.as_path()),
            (Path::new("/out/before.log"), Path::new("/out/after.log"))
        );
        let names: Vec<&str> = before.env.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["WIRETAIL_RUN", "WIRETAIL_NAMESPACE", "WIRETAIL_TRIAL"]);
        assert_eq!(before.env[1].1, "r-dut1");
        assert_eq!(list("after = \"a\"").len(), 2);
    }
}
