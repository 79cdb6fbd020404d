//! The steps of a test: each is tried unless one before it failed.

use crate::{Error, Step, Verdict};

/// What was tried so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    has_failed: bool,
}

impl Steps {
    /// Tries something and returns what it gave. `seen` is what the owner reads if it went well.
    pub(crate) async fn take<T>(
        &mut self,
        name: &'static str,
        description: &str,
        seen: &str,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        if self.has_failed {
            self.add(
                name,
                description,
                Verdict::Skipped,
                "skipped because an earlier step failed",
            );
            return None;
        }
        match attempt.await {
            Ok(value) => {
                self.add(name, description, Verdict::Passed, seen);
                Some(value)
            }
            Err(error) => {
                tracing::info!(
                    error = &error as &dyn std::error::Error,
                    step = name,
                    "a test of a destination failed"
                );
                self.has_failed = true;
                self.add(name, description, Verdict::Failed, &error.sentence);
                None
            }
        }
    }

    /// For a step that cannot be tried without what an earlier one gave.
    pub(crate) fn skip(&mut self, name: &'static str, description: &str) {
        self.add(
            name,
            description,
            Verdict::Skipped,
            "skipped because an earlier step failed",
        );
    }

    pub(crate) fn done(self) -> Vec<Step> {
        self.steps
    }

    fn add(&mut self, name: &'static str, description: &str, verdict: Verdict, message: &str) {
        self.steps.push(Step {
            name,
            description: description.to_owned(),
            verdict,
            message: message.to_owned(),
        });
    }
}
