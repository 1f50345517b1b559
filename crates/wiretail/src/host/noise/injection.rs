//! Injected interference, to test that the measurement identifies it.

use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use anyhow::{Context, Result, bail};
use wiretail_dataplane::error::DataplaneError;
use wiretail_dataplane::interference::InterferencePlan;
use wiretail_dataplane::interference::injectors::{InjectorSpec, Injectors};
use wiretail_host::{CoreSet, own_loopback};

use crate::cli::host::NoiseArgs;
use crate::traffic::live;

/// Real-time priority of injectors on other cores.
const PRIORITY: u8 = 45;
/// Shortest interval between injected events, in ns. The longest events fill most of this interval.
const EVERY_NS_MIN: u64 = 1_000_000;
/// Seed of the injection times if several kinds of events take turns.
const SEED: u64 = 1;

/// Context of the running injectors. It must outlive them.
pub struct Injection {
    plan: InterferencePlan,
    device: u32,
    housekeeping: u32,
    loopback: Box<dyn Fn() -> Result<(), DataplaneError> + Sync>,
    stop: AtomicBool,
}

impl Injection {
    /// Creates the requested injection; `None` if none was requested. `others` are the cores that are not
    /// measured.
    ///
    /// # Errors
    /// Returns an error if all cores are measured, so that no core is left to inject from, or if the interval
    /// is too short.
    pub fn of(arguments: &NoiseArgs, others: &CoreSet, duration_ns: u64) -> Result<Option<Self>> {
        if arguments.inject.is_empty() {
            return Ok(None);
        }
        let cores = (arguments.cores.cores().first().copied(), others.cores().first().copied());
        let (Some(device), Some(housekeeping)) = cores else {
            bail!("--inject needs a core that is not measured, to inject from; remove one from --cores")
        };
        let every_ns = live::nanoseconds("inject-every", arguments.inject_every)?;
        if every_ns < EVERY_NS_MIN {
            bail!("--inject-every is {}; expected 1ms or more", arguments.inject_every);
        }
        let loopback = Box::new(move || {
            own_loopback(device).map_err(|error| DataplaneError::Thread {
                step: "creating a loopback whose packets the core receives".to_owned(),
                source: std::io::Error::other(error.to_string()),
                next: "remove softirq from --inject if that is not possible",
            })
        });
        let plan = InterferencePlan { kinds: arguments.inject.clone(), every_ns, duration_ns, seed: SEED };
        Ok(Some(Self { plan, device, housekeeping, loopback, stop: AtomicBool::new(false) }))
    }

    /// Starts the injectors, and returns when they are ready.
    ///
    /// # Errors
    /// Returns an error if an injector is not possible here.
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
