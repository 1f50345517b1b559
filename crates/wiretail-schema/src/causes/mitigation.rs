//! Mitigations of a cause of delay, as shown in reports and in the terminal.

use super::CauseKind;

/// Returns the mitigation of a cause, given its kind and name.
pub type Mitigations = fn(CauseKind, &str) -> Mitigation;

/// Description of a cause, and its mitigations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mitigation {
    /// One sentence that describes the cause.
    pub what: &'static str,
    /// Mitigations, most effective first: a boot parameter, a setting, a change of the application.
    pub steps: Vec<String>,
    /// Documents that describe the mitigations.
    pub sources: &'static [Source],
}

/// A document to cite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Title of the document.
    pub title: &'static str,
    /// URL of the document.
    pub url: &'static str,
}
