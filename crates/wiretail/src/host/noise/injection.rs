//! Disturbances on purpose: whether the instrument names what it should.

use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use anyhow::{Context, Result, bail};
use wiretail_dataplane::error::DataplaneError;
use wiretail_dataplane::interference::InterferencePlan;
use wiretail_dataplane::interference::injectors::{InjectorSpec, Injectors};
use wiretail_host::{CoreSet, own_loopback};

use crate::cli::host::NoiseArgs;
use crate::traffic::live;

/// Of those who disturb from another core.
const PRIORITY: u8 = 45;
/// Shortest time from one disturbance to the next, in ns: the longest ones take most of it.
const EVERY_NS_MIN: u64 = 1_000_000;
/// Of the times, where several kinds take turns.
const SEED: u64 = 1;

/// What planters need while they run; outlives them.
pub struct Injection {
    plan: InterferencePlan,
    device: u32,
    housekeeping: u32,
    loopback: Box<dyn Fn() -> Result<(), DataplaneError> + Sync>,
    stop: AtomicBool,
}

impl Injection {
    /// As asked for; none where nothing was. `others` are the cores that are not watched.
    ///
    /// # Errors
    /// There is no other core to disturb from; too often.
    pub fn of(arguments: &NoiseArgs, others: &CoreSet, duration_ns: u64) -> Result<Option<Self>> {
        if arguments.inject.is_empty() {
            return Ok(None);
        }
        let cores = (arguments.cores.cores().first().copied(), others.cores().first().copied());
        let (Some(device), Some(housekeeping)) = cores else {
            bail!("--inject disturbs a core from another one, and all are watched; leave one out of --cores")
        };
        let every_ns = live::nanoseconds("plant-every", arguments.inject_every)?;
        if every_ns < EVERY_NS_MIN {
            bail!("--inject-every is {}; expected 1ms or more", arguments.inject_every);
        }
        let loopback = Box::new(move || {
            own_loopback(device).map_err(|error| DataplaneError::Thread {
                step: "making a loopback whose packets the core receives".to_owned(),
                source: std::io::Error::other(error.to_string()),
                next: "leave softirq out of --inject where that can't be had",
            })
        });
        let plan = InterferencePlan { kinds: arguments.inject.clone(), every_ns, duration_ns, seed: SEED };
        Ok(Some(Self { plan, device, housekeeping, loopback, stop: AtomicBool::new(false) }))
    }

    /// Starts the planters, and returns when they are ready.
    ///
    /// # Errors
    /// One can't do its work here.
    pub fn start<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Injectors<'scope>> {
        let spec = InjectorSpec {
            device: self.device as usize,
            housekeeping: self.housekeeping as usize,
            priority: PRIORITY,
            loopback: &*self.loopback,
        };
        Injectors::start(scope, &self.plan, spec, &self.stop).context("--inject")
    }
}
