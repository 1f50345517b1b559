//! Writes a report from synthetic numbers to a directory, as `wiretail analyze --out` does from captures:
//! `report.html`, `summary.json`, a CSV and an SVG per figure, `comparison.html`, `run.html` and
//! `explanation.html`.
//!
//!     cargo run -p wiretail-report --example sample_report -- DIRECTORY [hostile]
//!
//! With `hostile`, all external names contain markup. The packets come from a seeded generator, and all other
//! numbers are computed from them as in an analysis, so that tests can compare the page with `summary.json`.

use std::path::Path;

use wiretail_report::ExplanationPage;
use wiretail_schema::summary::Analysis;

#[path = "sample/causes.rs"]
mod causes;
#[path = "sample/comparison.rs"]
mod comparison;
#[path = "sample/figures.rs"]
mod figures;
#[path = "sample/numbers.rs"]
mod numbers;
#[path = "sample/run.rs"]
mod run;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("usage: sample_report DIRECTORY [hostile]");
    let hostile = arguments.next().is_some_and(|word| word == "hostile");
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;

    let (summary, packets) = numbers::summary(1, hostile);
    let analysis = Analysis { figures: figures::all(&summary, &packets), summary };
    let started = std::time::Instant::now();
    let page = wiretail_report::report(&analysis);
    println!("report: {} bytes in {:?}", page.len(), started.elapsed());
    std::fs::write(directory.join("report.html"), page)?;
    std::fs::write(directory.join("summary.json"), serde_json::to_vec_pretty(&analysis.summary)?)?;
    let figures = directory.join("figures");
    std::fs::create_dir_all(&figures)?;
    for figure in &analysis.figures {
        std::fs::write(figures.join(format!("{}.csv", figure.id)), wiretail_report::csv(figure))?;
        std::fs::write(figures.join(format!("{}.svg", figure.id)), wiretail_report::svg(figure))?;
    }

    let plan = run::Plan {
        devices: &[("wire", None), ("bridge", None), ("skeleton", Some(1)), ("skeleton", Some(32))],
        rates_kpps: &[10, 20, 40, 80],
        bursts: &[1, 16],
        repeats: 1,
        stretch: 1,
        back: true,
        switched: false,
    };
    let mut sample = run::run(&plan, &analysis.summary, hostile);
    causes::trace(&mut sample, 3, hostile);
    std::fs::write(directory.join("run.html"), sample.page())?;
    let trial = &sample.run.trials[0];
    let page = ExplanationPage {
        run: &sample.run,
        trial,
        explanation: &sample.explanations[0].explanation,
        mitigations: causes::mitigation,
    };
    std::fs::write(directory.join("explanation.html"), wiretail_report::explanation(&page))?;
    let switched = run::Plan {
        devices: &[
            ("skeleton", Some(1)),
            ("a-device-with-a-rather-long-name-as-commands-have", None),
            ("suricata-filter", None),
            ("dpdk-l2fwd", Some(32)),
            ("dpdk-l2fwd", Some(4)),
            ("linux-router", None),
        ],
        rates_kpps: &[10, 20, 30, 50],
        bursts: &[1],
        repeats: 3,
        stretch: 1,
        back: true,
        switched: true,
    };
    std::fs::write(directory.join("switched.html"), run::run(&switched, &analysis.summary, hostile).page())?;

    let (other, _) = numbers::summary(2, hostile);
    let names =
        if hostile { ["<b>a</b>", "\"><script>alert(2)</script>"] } else { ["tickless", "periodic tick"] };
    let results = [(names[0].to_owned(), analysis.summary), (names[1].to_owned(), other)];
    let page = wiretail_report::comparison(
        &format!("{} against {}", names[0], names[1]),
        &results,
        &comparison::comparison(names),
    );
    std::fs::write(directory.join("comparison.html"), page)
}
