//! The energy section of the run page: its content, the runs that do not have it, and external names.

use wiretail_schema::run::SettingRecord;
use wiretail_schema::run::energy::*;

use super::{PLAN, elements, numbers, run};

fn state(state: EnergyState, seconds: f64, package: f64, name: &str) -> StateEnergy {
    let domain = |domain: &str, watts: f64, counted| DomainEnergy {
        domain: domain.to_owned(),
        joules: watts * seconds,
        watts,
        counted,
    };
    StateEnergy {
        state,
        seconds,
        readings: 2,
        total: Joules { joules: (package + 4.0) * seconds, uncertainty_j: 0.054 },
        watts: package + 4.0,
        domains: vec![domain("package", package, true), domain(name, 4.0, true), domain("core", 30.5, false)],
    }
}

fn measured(name: &str, reason: Option<&str>) -> Energy {
    Energy {
        source: EnergySource::Rapl,
        reason: reason.map(str::to_owned),
        resolution_ns: Some(1_000_000),
        states: vec![
            state(EnergyState::Available, 5.0, 40.0, name),
            state(EnergyState::Processing, 2.0, 46.0, name),
        ],
        packets: 50_000,
        per_million_packets: Some(Joules { joules: 2000.0, uncertainty_j: 1.08 }),
        per_million_packets_above_available: Some(Joules { joules: 240.0, uncertainty_j: 2.0 }),
    }
}

/// The page of a run whose trials have this energy and request this source.
fn page(energy: &Energy, source: &str) -> String {
    let mut sample = run::run(&PLAN, &numbers::summary(1, false).0, false);
    for trial in &mut sample.run.trials {
        let setting = SettingRecord { key: "energy.source".to_owned(), text: source.to_owned(), number: 0 };
        trial.settings.push(setting);
        trial.energy = Some(energy.clone());
    }
    sample.page()
}

#[test]
fn shows_every_state_of_a_trial() {
    let page = page(&measured("dram", None), "auto");
    assert!(page.contains("<section id=\"energy\""));
    // Once for each of 18 trials.
    for (cell, times) in [
        (">processing<", 18),
        (">44.00\u{a0}W<", 18),
        (">30.50\u{a0}W<", 36),
        (">2.000\u{a0}kJ<small>± 1.080\u{a0}J</small>", 18),
        (">240.0\u{a0}J<", 18),
    ] {
        assert_eq!(page.matches(cell).count(), times, "{cell}");
    }
    assert!(page.contains("(RAPL)") && page.contains("not counted: contained in another domain"));
    assert!(!page.contains("Energy was not measured"));
}

#[test]
fn reports_why_energy_was_not_measured() {
    let none = Energy::none("no powercap zones in /sys".to_owned());
    let asked = page(&none, "rapl");
    assert!(
        asked.contains("<section id=\"energy\"")
            && asked.contains("Not measured: no powercap zones in /sys.")
    );
    let found = page(&none, "auto");
    assert!(!found.contains("<section id=\"energy\""), "nobody asked");
    assert_eq!(found.matches("Energy was not measured: no powercap zones in /sys.").count(), 1);
    let plain = run::run(&PLAN, &numbers::summary(1, false).0, false).page();
    assert!(!plain.contains("Energy") && !plain.contains("<section id=\"energy\""));
}

#[test]
fn names_and_reasons_are_escaped() {
    let tame = page(&measured("dram", Some("why")), "command");
    let hostile = page(&measured("<img src=z>", Some("<script>alert(3)</script>")), "command");
    assert_eq!(elements(&tame), elements(&hostile));
    assert!(hostile.contains("&lt;img src=z&gt;") && !hostile.contains("<script>alert(3)"));
}
