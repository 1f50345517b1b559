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
    /// What to do.
    #[command(subcommand)]
    pub command: HostCommand,
}

// What there is to do with a host.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum HostCommand {
    /// Say whether the cores of packets are left alone: what was requested, what is in effect, what helps
    ///
    /// Reads only, and mostly without root; what could not be seen is named, with the reason. Counts for a second what
    /// interrupts the cores and who runs on them.
    Audit(AuditArgs),
    /// Say what to set for the cores to be left alone, how each of it is now, and what it costs
    ///
    /// Changes nothing. With --out it also writes what the tools of others read: GRUB, sysctl, systemd, tuned, libvirt,
    /// LXC, OCI runtimes, resctrl.
    Plan(PlanArgs),
    /// Change what can be changed while the machine runs; it stays changed until `revert`
    ///
    /// Every value is written down on disk before it is changed, so that `revert` puts it back, also after this was killed.
    Apply(ApplyArgs),
    /// Put back everything that `apply` changed
    Revert(RevertArgs),
    /// Say of each setting whether it is in effect
    Verify(VerifyArgs),
    /// Say how long cores are taken away, by whom, and what no forwarder on them can promise
    ///
    /// A loop on each core only reads the clock: where two readings are far apart, its core was taken from it. With
    /// --trace the kernel's trace names who took it.
    Noise(NoiseArgs),
    /// Say what the papers recommend for this host and these runs, each with its evidence
    ///
    /// Reads the audit and your own runs, and changes nothing: hardware timestamps, spare capacity, the kernel, the card,
    /// virtualisation, and latency, security and resources of each deployment. What there is no evidence for is said to
    /// have none yet, with the command that gives some.
    Recommend(RecommendArgs),
    /// Measure what a profile is worth here, and each of its settings
    ///
    /// Runs an experiment's trials on the host as it is, with all settings that can be changed while the machine runs, and with all
    /// but one of them, in turns; everything is put back behind each trial. Ranks the settings by their effect on p99.9 and the maximum.
    Prove(ProveArgs),
}

// What is wanted of a host.
#[derive(Debug, Args)]
pub struct WantedArgs {
    /// How far it goes
    #[arg(long, value_enum)]
    pub profile: ProfileChoice,
    /// What the host is for the packets [default: what it looks like]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// The cores that are to be left alone, such as 1 or 2-3,5 [default: those that the boot line isolates, or all but the first]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host plan --profile optimized --cores 1-3
  wiretail host plan --profile energysaving --cores 1-3 --out tuning     # also for GRUB, tuned, systemd ...
  wiretail host plan --profile optimized --role vm-host --cores 2-5 --out tuning
  wiretail host plan --profile optimized --from host.txt                 # for another machine: host audit --save

What each profile sets: docs/tuning.md. With --json: docs/formats/plan.md.

Exit code: 0 done; 2 error.")]
pub struct PlanArgs {
    /// Profile, role and cores.
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Plan for what was recorded: a file of `host audit --save`, or a folder with a machine's /proc and /sys
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Write the files of GRUB, sysctl, systemd, tuned and others there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show also what is as it shall be, or is not there
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
  sudo wiretail host apply --profile optimized --cores 1-3 --files --allow-system-changes && sudo update-grub
  sudo wiretail host revert

Exit code: 0 done; 2 error, and nothing is changed.")]
pub struct ApplyArgs {
    /// Profile, role and cores.
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Put also the files for GRUB, sysctl and systemd in their places, which take effect when the machine is started again
    #[arg(long)]
    pub files: bool,
    /// Print every change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Change the host
    #[arg(long)]
    pub allow_system_changes: bool,
    /// The machine's files are below this folder, to try it out
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What was changed while the machine ran is gone when it was started again; then only files are put back.

Exit code: 0 done, or nothing was applied; 2 error.")]
pub struct RevertArgs {
    /// Print every change that would be undone, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The machine's files are below this folder, to try it out
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host verify                                   # what was applied
  wiretail host verify --now                             # without what needs a start of the machine
  wiretail host verify --profile optimized --cores 1-3   # whoever has set it

Exit code: 0 all is in effect; 1 something is not; 2 error.")]
pub struct VerifyArgs {
    /// The profile [default: the one that was applied]
    #[arg(long, value_enum)]
    pub profile: Option<ProfileChoice>,
    /// What the host is for the packets [default: as applied, else what it looks like]
    #[arg(long, value_enum, requires = "profile")]
    pub role: Option<RoleChoice>,
    /// The cores that are to be left alone [default: as applied, else those that the boot line isolates, or all but the first]
    #[arg(long, value_name = "CORES", value_parser = cores, requires = "profile")]
    pub cores: Option<CoreSet>,
    /// Only what can be changed while the machine runs
    #[arg(long)]
    pub now: bool,
    /// Print the plan as it is then as JSON (docs/formats/plan.md)
    #[arg(long)]
    pub json: bool,
    /// The machine's files are below this folder, to try it out
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host prove experiments/host/ablation.toml --dry-run                            # what would be compared, and how long it takes
  sudo wiretail host prove experiments/host/ablation.toml --allow-system-changes
  sudo wiretail host prove experiments/host/ablation.toml --only host.fifo,irq-affinity --alone --allow-system-changes
  sudo wiretail host prove --resume runs/2026-11-20T14-03-11-proof --allow-system-changes

A setting has an effect where the interval of its differences leaves out 0; all intervals hold together with 95 %. So it
takes some repeats: more settings take more. \"No effect seen\" is an answer: its interval says how large one may be.
Method: docs/ablation.md. With --json: ablation.json (docs/formats/ablation.md).

Exit code: 0 done; 1 a trial failed; 2 error; 130 interrupted.")]
pub struct ProveArgs {
    /// The experiment, whose trials are compared, and where its run goes; stalls and late packets make no trial invalid here.
    #[command(flatten)]
    pub run: RunArgs,
    /// The profile
    #[arg(long, value_enum, default_value = "optimized", conflicts_with = "resume")]
    pub profile: ProfileChoice,
    /// Switch only these back, of the names that --dry-run shows, with commas; the others stay as in the profile
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', conflicts_with = "resume")]
    pub only: Vec<String>,
    /// Measure also what each setting is worth alone, on the host as it is
    #[arg(long, conflicts_with = "resume")]
    pub alone: bool,
    /// How often each is done [default: the experiment's trial.repeats, but at least as often as it takes to see an effect]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub repeats: Option<u64>,
}

/// How far a plan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileChoice {
    /// As the distribution has it
    Regular,
    /// Cores are isolated, and may sleep
    #[value(name = "energysaving")]
    EnergySaving,
    /// Cores are isolated, never sleep and never slow down
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
  wiretail host audit                              # the cores that the boot line isolates
  wiretail host audit --cores 1-3 --all            # also what is as it should be
  wiretail host audit --save host.txt              # a text to send to others: read it first
  wiretail host audit --from host.txt              # the audit of another machine
  wiretail host audit --from sosreport-edge7/      # of a tree with its /proc and /sys
  wiretail host audit --json | jq '.findings[] | select(.verdict == \"ineffective\")'

INEFFECTIVE was requested and is not in effect, or contradicts itself. harmful takes time from the cores.
improvable is what nobody asked for, and would help. Rules: docs/audit.md.

Exit code: 0 done; 1 with --check and something ineffective or harmful; 2 error.")]
pub struct AuditArgs {
    /// The cores that are to be left alone, such as 1 or 2-3,5 [default: those that the boot line isolates]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
    /// What the host is for the packets [default: what it looks like]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// Audit what was recorded: a file of --save, or a folder with a machine's /proc and /sys
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Write all that was read into a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// How long to count interrupts and watch threads; 0s for not at all
    #[arg(long, value_name = "DURATION", default_value = "1s", conflicts_with = "from")]
    pub watch: Duration,
    /// Show also what is as it should be, or is not there, and why each thing matters
    #[arg(long, short)]
    pub all: bool,
    /// Exit with 1 if something is ineffective or harmful
    #[arg(long)]
    pub check: bool,
    /// Print the audit as JSON (docs/formats/audit.md)
    #[arg(long)]
    pub json: bool,
}

/// What a host is for the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleChoice {
    /// The device under test runs on it
    Bare,
    /// The device under test runs in a virtual machine on it
    VmHost,
    /// A virtual machine
    Vm,
    /// A container
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
