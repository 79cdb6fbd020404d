//! How steps end.

/// How a step ended that did not fail.
pub(crate) enum Outcome {
    Passed,
    /// It could not be run on this machine, and this is why. The summary counts it apart: it did not pass.
    Skipped(&'static str),
    /// All passed, these only when they were run again by themselves. The summary names them.
    PassedAlone(Vec<String>),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Passed
    }
}
