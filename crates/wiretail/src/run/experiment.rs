//! Reads the experiment file of a run.

use std::path::Path;

use anyhow::{Context, Result};
use wiretail_schema::experiment::{Experiment, Trial};
use wiretail_schema::search::Goal;
use wiretail_schema::units::Budget;

/// Latency budgets for every trial: the targets of 5G's ultra-reliable low-latency service.
const BUDGETS: [&str; 2] = ["1ms@99.999%", "350us@99.999%"];

/// Returns the latency budgets of a trial: [`BUDGETS`], and the budgets of its search goals.
pub fn budgets(trial: &Trial) -> Result<Vec<Budget>> {
    let mut budgets = BUDGETS.iter().map(|budget| budget.parse()).collect::<Result<Vec<Budget>, _>>()?;
    for goal in &trial.search.goals.0 {
        if let Goal::Delay { budget, .. } = goal {
            budgets.push(budget.parse()?);
        }
    }
    Ok(budgets)
}

/// Reads an experiment file. Errors name the file and the line. Paths of other files in the experiment become
/// absolute.
pub fn read(path: &Path) -> Result<Experiment> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; expected an experiment file", path.display()))?;
    let error = |error| anyhow::anyhow!("{}: {error}", path.display());
    let mut experiment = Experiment::parse(&text).map_err(error)?;
    let base = path.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(base) = std::path::absolute(base) {
        // The empty name stands for the directory itself, without a slash at its end.
        let path = |name: &str| if name.is_empty() { base.clone() } else { base.join(name) };
        experiment.rebase(|name| path(name).display().to_string());
    }
    Ok(experiment)
}
