//! The walls around a program: none, those of a container, those of a virtual machine. What is asked of the program
//! is translated to what gets through them.

use std::process::Command;

use anyhow::Result;
use wiretail_host::deploy::{Container, Runtime, Workload, container};
use wiretail_host::{CoreSet, Namespace};
use wiretail_schema::experiment::Trial;

use super::program::{Movers, Program, Site};
use crate::run::testbed::Testbed;

/// What is around a program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walls {
    /// A network namespace.
    Bare,
    /// A container that uses this namespace.
    Container(Container),
}

/// A program in its walls, ready to be started.
pub struct Deployed {
    /// What it is, with what has to be done from outside.
    pub program: Program,
    /// What starts it.
    pub command: Command,
    /// What is around it.
    pub walls: Walls,
    /// Where its links are.
    pub namespace: Namespace,
}

/// Puts a program into the walls that the trial asks for. Its files are there already.
///
/// # Errors
/// What these walls are made with is not installed.
pub fn deploy(trial: &Trial, mut program: Program, site: &Site, testbed: &mut Testbed) -> Result<Deployed> {
    let namespace = testbed.namespace(site.node)?;
    let get = |name| trial.get("dut", name).text.as_str();
    if get("deployment") == "bare" {
        let (first, arguments) =
            program.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let mut command = Command::new(first);
        command.args(arguments).envs(program.env.iter().map(|(name, value)| (name, value)));
        return Ok(Deployed { program, command, walls: Walls::Bare, namespace });
    }
    let workload = Workload {
        argv: program.argv.clone(),
        env: program.env.clone(),
        directory: site.directory.clone(),
        reads: program.reads.clone(),
        namespace: namespace.clone(),
        cores: CoreSet::new(site.core.into_iter().chain(site.housekeeping)),
        hugepages: false,
    };
    let name = format!("{}-dut{}", testbed.name(), site.node);
    let runtime = if get("container") == "lxc" { Runtime::Lxc } else { Runtime::Runc };
    let launch = container(runtime, &name, &workload, &std::env::temp_dir())?;
    testbed.change(&launch.plan)?;
    if program.movers == Movers::Everything {
        // From outside, when it is there: what makes the container is none of it.
        program.movers = Movers::Threads(vec![String::new()]);
    }
    let walls = Walls::Container(Container::new(&name)?);
    Ok(Deployed { program, command: launch.command, walls, namespace })
}
