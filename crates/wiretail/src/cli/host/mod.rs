//! Arguments of `wiretail host`.

mod noise;
mod recommend;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wiretail_host::CoreSet;
use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::plan::Profile;
use wiretail_schema::units::Duration;

pub use self::noise::NoiseArgs;
pub use self::recommend::RecommendArgs;
use super::RunArgs;
use super::trace::cores;

#[derive(Debug, Args)]
pub struct HostArgs {
    #[command(subcommand)]
    pub command: HostCommand,
}

// Actions on a host.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum HostCommand {
    /// Audit the isolation of the packet-processing cores: requested, effective and missing settings
    ///
    /// Changes nothing, and mostly works without root. Reports what could not be read, with the reason.
    /// Counts the interrupts and tasks on the cores for one second.
    Audit(AuditArgs),
    /// Show the settings that isolate the cores, with their current values and costs
    ///
    /// Changes nothing. With --out, also writes configuration files for other tools: GRUB, sysctl, systemd,
    /// tuned, libvirt, LXC, OCI runtimes, resctrl.
    Plan(PlanArgs),
    /// Change the settings that can be changed at runtime, until `revert`
    ///
    /// Saves every value on disk before it is changed, so that `revert` can restore it even if this process
    /// is killed.
    Apply(ApplyArgs),
    /// Restore everything that `apply` changed
    Revert(RevertArgs),
    /// Check whether each setting is in effect
    Verify(VerifyArgs),
    /// Measure how long tasks and interrupts take cores away from a loop, and the resulting delay floor
    ///
    /// A loop on each core reads the clock. A gap between two readings means that the loop lost its core.
    /// With --trace, a kernel trace names the cause.
    Noise(NoiseArgs),
    /// Print recommendations from the literature for this host and these runs, each with its evidence
    ///
    /// Reads the audit and your own runs, and changes nothing. Covers hardware timestamps, spare capacity,
    /// the kernel, the NIC, virtualization, and latency, security and resources of each deployment. A
    /// recommendation without evidence is marked as such, with the command that measures it.
    Recommend(RecommendArgs),
    /// Measure the effect of a profile on this host, and of each of its settings
    ///
    /// Runs the trials of an experiment in turn: on the unchanged host, with all settings that can be changed
    /// at runtime, and with all but one of these settings. Restores everything after each trial. Ranks the
    /// settings by their effect on p99.9 and the maximum.
    Prove(ProveArgs),
}

// Profile, role and cores for the packets.
#[derive(Debug, Args)]
pub struct WantedArgs {
    /// Tuning profile
    #[arg(long, value_enum)]
    pub profile: ProfileChoice,
    /// Role of the host in packet processing [default: detected]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// Cores to isolate, such as 1 or 2-3,5 [default: the cores that the boot command line isolates, or all
    /// but the first]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host plan --profile optimized --cores 1-3
  wiretail host plan --profile energysaving --cores 1-3 --out tuning     # also writes files
  wiretail host plan --profile optimized --role vm-host --cores 2-5 --out tuning
  wiretail host plan --profile optimized --from host.txt                 # for another machine

Settings of each profile: docs/tuning.md. Format of --json: docs/formats/plan.md.

Exit code: 0 success; 2 error.")]
pub struct PlanArgs {
    /// Profile, role and cores.
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Plan for a recorded host: a file of `host audit --save`, or a directory with the host's /proc and /sys
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Write configuration files for GRUB, sysctl, systemd, tuned and others to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also show settings that are in effect, and settings that this host does not have
    #[arg(long, short)]
    pub all: bool,
    /// Print the plan as JSON (docs/formats/plan.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host apply --profile optimized --cores 1-3 --dry-run
  sudo wiretail host apply --profile optimized --cores 1-3 --allow-system-changes
  sudo wiretail host apply --profile optimized --cores 1-3 --files --allow-system-changes
  sudo wiretail host revert

Exit code: 0 success; 2 error, and nothing was changed.")]
pub struct ApplyArgs {
    /// Profile, role and cores.
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Also install the files for GRUB, sysctl and systemd, which take effect at the next boot
    #[arg(long)]
    pub files: bool,
    /// Print every change, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Allow changes of the host
    #[arg(long)]
    pub allow_system_changes: bool,
    /// Directory that contains the host's files, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Runtime settings do not survive a reboot; after one, only files are restored.

Exit code: 0 success, or nothing was applied; 2 error.")]
pub struct RevertArgs {
    /// Print every change that would be reverted, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Directory that contains the host's files, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host verify                                   # the applied profile
  wiretail host verify --now                             # without settings that need a reboot
  wiretail host verify --profile optimized --cores 1-3   # however it was set

Exit code: 0 all settings are in effect; 1 some are not; 2 error.")]
pub struct VerifyArgs {
    /// Tuning profile [default: the applied profile]
    #[arg(long, value_enum)]
    pub profile: Option<ProfileChoice>,
    /// Role of the host in packet processing [default: as applied, else detected]
    #[arg(long, value_enum, requires = "profile")]
    pub role: Option<RoleChoice>,
    /// Isolated cores [default: as applied, else the cores that the boot command line isolates, or all but
    /// the first]
    #[arg(long, value_name = "CORES", value_parser = cores, requires = "profile")]
    pub cores: Option<CoreSet>,
    /// Check only settings that can be changed at runtime
    #[arg(long)]
    pub now: bool,
    /// Print the plan, with the current values, as JSON (docs/formats/plan.md)
    #[arg(long)]
    pub json: bool,
    /// Directory that contains the host's files, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host prove experiments/host/ablation.toml --dry-run                # lists the trials
  sudo wiretail host prove experiments/host/ablation.toml --allow-system-changes
  sudo wiretail host prove ablation.toml --only host.fifo --alone --allow-system-changes
  sudo wiretail host prove --resume runs/2026-11-20T14-03-11-proof --allow-system-changes

A setting has an effect if the confidence interval of its differences excludes 0; all intervals hold
jointly with 95 % confidence. More settings need more repeats. \"No effect seen\" is a result: the
interval bounds the size of any effect.
Method: docs/ablation.md. Format of --json: ablation.json (docs/formats/ablation.md).

Exit code: 0 success; 1 a trial failed; 2 error; 130 interrupted.")]
pub struct ProveArgs {
    /// Experiment whose trials are compared, and run directory; stalls and late packets do not make a trial
    /// invalid.
    #[command(flatten)]
    pub run: RunArgs,
    /// Tuning profile
    #[arg(long, value_enum, default_value = "optimized", conflicts_with = "resume")]
    pub profile: ProfileChoice,
    /// Switch back only these settings, named as in the output of --dry-run; the others stay as in the
    /// profile
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', conflicts_with = "resume")]
    pub only: Vec<String>,
    /// Also measure each setting alone, on the unchanged host
    #[arg(long, conflicts_with = "resume")]
    pub alone: bool,
    /// Number of trials per configuration [default: the experiment's trial.repeats, but at least as many as
    /// are needed to show an effect]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub repeats: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileChoice {
    /// Distribution defaults
    Regular,
    /// Isolated cores that may sleep
    #[value(name = "energysaving")]
    EnergySaving,
    /// Isolated cores that never sleep or slow down
    Optimized,
}

impl From<ProfileChoice> for Profile {
    fn from(choice: ProfileChoice) -> Self {
        match choice {
            ProfileChoice::Regular => Self::Regular,
            ProfileChoice::EnergySaving => Self::EnergySaving,
            ProfileChoice::Optimized => Self::Optimized,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host audit                              # the cores that the boot command line isolates
  wiretail host audit --cores 1-3 --all            # also settings that are as they should be
  wiretail host audit --save host.txt              # a text file to send to others: read it first
  wiretail host audit --from host.txt              # audit of another machine
  wiretail host audit --from sosreport-edge7/      # from a tree with its /proc and /sys
  wiretail host audit --json | jq '.findings[] | select(.verdict == \"ineffective\")'

INEFFECTIVE: requested but not in effect, or contradictory. harmful: takes time from the cores.
improvable: not requested, but would help. Rules: docs/audit.md.

Exit code: 0 success; 1 with --check, something is ineffective or harmful; 2 error.")]
pub struct AuditArgs {
    /// Cores that should be isolated, such as 1 or 2-3,5 [default: the cores that the boot command line
    /// isolates]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
    /// Role of the host in packet processing [default: detected]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// Audit a recorded host: a file of --save, or a directory with the host's /proc and /sys
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Write everything that was read to a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Time for counting interrupts and watching threads; 0s disables both
    #[arg(long, value_name = "DURATION", default_value = "1s", conflicts_with = "from")]
    pub watch: Duration,
    /// Also show why each setting matters, and settings that are as they should be or do not exist here
    #[arg(long, short)]
    pub all: bool,
    /// Exit with 1 if anything is ineffective or harmful
    #[arg(long)]
    pub check: bool,
    /// Print the audit as JSON (docs/formats/audit.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleChoice {
    /// Host of the device under test
    Bare,
    /// Host of a virtual machine that runs the device under test
    VmHost,
    /// Virtual machine
    Vm,
    /// Container
    Container,
}

impl From<RoleChoice> for HostRole {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Bare => Self::Bare,
            RoleChoice::VmHost => Self::VmHost,
            RoleChoice::Vm => Self::Vm,
            RoleChoice::Container => Self::Container,
        }
    }
}
