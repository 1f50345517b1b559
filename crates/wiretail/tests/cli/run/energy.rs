//! Energy of trials, measured by a command with known power, and without a source.

use std::path::Path;

use serde_json::Value;

use super::bed::{Bed, experiment, live};

/// A short run of a bridge with these lines about energy.
fn bed(energy: &str) -> Bed {
    let base = experiment("kind = \"bridge\"", "rate = \"1 kpps\"", "duration = \"600 ms\"");
    Bed::new(&format!("{base}[energy]\n{energy}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn computes_energy_of_known_power() {
    let Some(_alone) = live() else { return };
    let bed = bed(
        "source = \"command\"\ncommand = \"while true; do echo 50; sleep 0.05; done\"\ninterval = \"50 ms\"\n\
         idle = \"400 ms\"\navailable = \"300 ms\"\n",
    );
    let finished = bed.run().with_code(0);
    let trial = &bed.trials()[0];
    let energy = &trial["energy"];
    assert_eq!((&energy["source"], &energy["reason"]), (&"command".into(), &Value::Null), "{energy}");
    let states = energy["states"].as_array().unwrap();
    let names: Vec<&str> = states.iter().map(|state| state["state"].as_str().unwrap()).collect();
    assert_eq!(names, ["idle", "available", "processing"]);
    for (state, least_s) in states.iter().zip([0.4, 0.3, 0.59]) {
        let seconds = number(&state["seconds"]);
        assert!(seconds >= least_s, "{state}");
        assert!((number(&state["total"]["joules"]) - 50.0 * seconds).abs() < 1e-6, "{state}");
    }
    // 600 packets.
    let whole = number(&states[2]["total"]["joules"]) / 600.0 * 1e6;
    assert_eq!(energy["packets"], 600);
    assert!((number(&energy["per_million_packets"]["joules"]) - whole).abs() < 1e-6);
    assert!(number(&energy["per_million_packets_above_available"]["joules"]).abs() < 1e-3);
    assert!(
        finished
            .stdout
            .contains("energy: idle 50.00\u{a0}W, available 50.00\u{a0}W, processing 50.00\u{a0}W")
    );
    let report = std::fs::read_to_string(bed.out().join("report.html")).expect("a report");
    assert!(report.contains("<section id=\"energy\""));
    let table = bed.out().join(trial["directory"].as_str().unwrap()).join("energy.csv");
    let table = std::fs::read_to_string(table).expect("the readings");
    let of =
        |state: &str| table.lines().filter(|line| line.contains(&format!(",{state},metered,50"))).count();
    let told: Vec<u64> = states.iter().map(|state| state["readings"].as_u64().unwrap()).collect();
    assert_eq!(told, ["idle", "available", "processing"].map(|state| of(state) as u64));
}

#[test]
fn failed_meter_fails_no_trial() {
    let Some(_alone) = live() else { return };
    let bed = bed(
        "source = \"command\"\ncommand = \"echo the outlet is gone >&2; exit 1\"\navailable = \"100 ms\"\n",
    );
    let finished = bed.run().with_code(0);
    let trial = &bed.trials()[0];
    assert_eq!(trial["state"], "valid");
    let why = "energy.command failed (exit status: 1): the outlet is gone";
    assert!(trial["notes"].to_string().contains(why), "{}", trial["notes"]);
    assert!(finished.stdout.contains(why), "{}", finished.stdout);
}

#[test]
fn reports_missing_energy_source() {
    let Some(_alone) = live() else { return };
    if Path::new("/sys/class/powercap/intel-rapl:0").exists() {
        println!("SKIPPED: this machine has powercap zones");
        return;
    }
    let why = "no powercap zones in /sys/class/powercap";
    let report = |bed: &Bed| std::fs::read_to_string(bed.out().join("report.html")).expect("a report");
    let asked = bed("source = \"rapl\"\n");
    let finished = asked.run().with_code(0);
    assert!(finished.stdout.contains(&format!("energy: not measured: {why}")), "{}", finished.stdout);
    assert!(report(&asked).contains(&format!("Not measured: {why}")));
    // Energy was not requested, so there is no note, and no column in the table.
    let auto = bed("");
    let finished = auto.run().with_code(0);
    let trial = &auto.trials()[0];
    assert_eq!((&trial["energy"]["source"], &trial["notes"]), (&"none".into(), &Value::Array(vec![])));
    assert!(
        !finished.stdout.contains("energy")
            && report(&auto).contains(&format!("Energy was not measured: {why}"))
    );
}
