//! Judgement of a rule on a host.

use wiretail_schema::host::audit::Verdict;

/// Verdict of a rule, with the values that it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Requested value, for example from the boot line.
    pub requested: Option<String>,
    /// Value in effect.
    pub effective: Option<String>,
    /// Problem found, as text.
    pub detail: String,
}

impl Judgement {
    fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { verdict, requested: None, effective: None, detail: detail.into() }
    }

    /// The host is as it should be.
    pub fn good() -> Self {
        Self::new(Verdict::Good, "")
    }

    /// A setting was requested, but is not in effect.
    pub fn ineffective(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Ineffective, detail)
    }

    /// The setting takes time from the packet cores.
    pub fn harmful(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Harmful, detail)
    }

    pub fn improvable(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Improvable, detail)
    }

    /// The rule could not read its input, for the given reason.
    pub fn unseen(why: impl Into<String>) -> Self {
        Self::new(Verdict::Unseen, why)
    }

    /// The rule does not apply to this host, for the given reason.
    pub fn not_here(why: impl Into<String>) -> Self {
        Self::new(Verdict::NotHere, why)
    }

    /// Sets the requested value.
    #[must_use]
    pub fn requested(mut self, text: Option<impl Into<String>>) -> Self {
        self.requested = text.map(Into::into);
        self
    }

    /// Sets the value in effect.
    #[must_use]
    pub fn effective(mut self, text: impl Into<String>) -> Self {
        self.effective = Some(text.into());
        self
    }
}
