//! What a rule says of a host.

use wiretail_schema::host::audit::Verdict;

/// A verdict, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// How it is.
    pub verdict: Verdict,
    /// What was asked for.
    pub requested: Option<String>,
    /// What is in effect.
    pub effective: Option<String>,
    /// What is wrong, in words.
    pub detail: String,
}

impl Judgement {
    fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { verdict, requested: None, effective: None, detail: detail.into() }
    }

    /// As it should be.
    pub fn good() -> Self {
        Self::new(Verdict::Good, "")
    }

    /// Asked for and not in effect.
    pub fn ineffective(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Ineffective, detail)
    }

    /// Takes time from the cores.
    pub fn harmful(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Harmful, detail)
    }

    /// Could be better.
    pub fn improvable(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Improvable, detail)
    }

    /// Could not be seen, because.
    pub fn unseen(why: impl Into<String>) -> Self {
        Self::new(Verdict::Unseen, why)
    }

    /// No such thing here, because.
    pub fn not_here(why: impl Into<String>) -> Self {
        Self::new(Verdict::NotHere, why)
    }

    /// With what was asked for.
    #[must_use]
    pub fn requested(mut self, text: Option<impl Into<String>>) -> Self {
        self.requested = text.map(Into::into);
        self
    }

    /// With what is in effect.
    #[must_use]
    pub fn effective(mut self, text: impl Into<String>) -> Self {
        self.effective = Some(text.into());
        self
    }
}
