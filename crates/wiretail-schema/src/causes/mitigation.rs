//! What helps against a cause of delay, as pages and terminals show it.

use super::CauseKind;

/// What helps against a cause: of this kind, with this name.
pub type Mitigations = fn(CauseKind, &str) -> Mitigation;

/// What a cause is and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mitigation {
    /// What happens, in a sentence.
    pub what: &'static str,
    /// What to do, the most effective first: a boot parameter, a setting, a habit of the application.
    pub steps: Vec<String>,
    /// Where that is documented.
    pub sources: &'static [Source],
}

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// What it is called.
    pub title: &'static str,
    /// Where it is.
    pub url: &'static str,
}
