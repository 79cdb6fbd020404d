//! Connection tests: the steps of a plan, tried one after the other until one fails.

use crate::{Error, Step, Verdict};

/// What is tried, in this order: a name for programs, and a description for people.
pub(crate) type Plan<'a> = &'a [(&'static str, &'a str)];

/// How far a test has come.
pub(crate) struct Steps {
    left: std::vec::IntoIter<(&'static str, String)>,
    done: Vec<Step>,
    has_failed: bool,
    /// What is said of a step that is not tried.
    skipped: &'static str,
}

impl Steps {
    pub(crate) fn new(plan: Plan<'_>) -> Self {
        let plan: Vec<_> = plan
            .iter()
            .map(|(name, description)| (*name, (*description).to_owned()))
            .collect();
        Self {
            left: plan.into_iter(),
            done: Vec::new(),
            has_failed: false,
            skipped: "skipped because an earlier step failed",
        }
    }

    /// Says nothing of steps that are not tried.
    pub(crate) fn silent(mut self) -> Self {
        self.skipped = "";
        self
    }

    /// Tries the next step, unless one before it failed, and returns what it gave. `seen` is what the owner reads if it went well.
    pub(crate) async fn take<T>(&mut self, seen: &str, attempt: impl Future<Output = Result<T, Error>>) -> Option<T> {
        if self.has_failed {
            self.skip();
            return None;
        }
        self.take_anyway(seen, attempt).await
    }

    /// The same for a step that is tried whatever those before it gave.
    pub(crate) async fn take_anyway<T>(
        &mut self,
        seen: &str,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        match attempt.await {
            Ok(value) => {
                self.passed(seen);
                Some(value)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// The same for a step that says itself what the owner reads if it went well.
    pub(crate) async fn tell(&mut self, attempt: impl Future<Output = Result<&'static str, Error>>) {
        if self.has_failed {
            return self.skip();
        }
        match attempt.await {
            Ok(seen) => self.passed(seen),
            Err(error) => self.failed(&error),
        }
    }

    /// The next step worked.
    pub(crate) fn passed(&mut self, seen: &str) {
        self.note(Verdict::Passed, seen);
    }

    /// The next step did not work; those after it are not tried.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.has_failed = true;
        self.note(Verdict::Failed, &error.sentence);
        tracing::info!(
            error = error as &dyn std::error::Error,
            step = self.done.last().map(|step| step.name),
            "a test of a destination failed"
        );
    }

    /// All steps. Those that were not reached are skipped.
    pub(crate) fn done(mut self) -> Vec<Step> {
        while self.left.len() > 0 {
            self.skip();
        }
        self.done
    }

    fn skip(&mut self) {
        self.note(Verdict::Skipped, self.skipped);
    }

    fn note(&mut self, verdict: Verdict, message: &str) {
        let Some((name, description)) = self.left.next() else {
            return;
        };
        self.done.push(Step {
            name,
            description,
            verdict,
            message: message.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan<'_> = &[("one", "One"), ("two", "Two"), ("three", "Three"), ("four", "Four")];

    fn verdicts(steps: Steps) -> Vec<(&'static str, Verdict, String)> {
        let all = steps.done().into_iter();
        all.map(|step| (step.name, step.verdict, step.message)).collect()
    }

    #[tokio::test]
    async fn what_comes_after_a_failure_is_not_tried() {
        let mut steps = Steps::new(PLAN);
        assert_eq!(steps.take("fine", async { Ok(1) }).await, Some(1));
        steps.tell(async { Err(Error::plain("broken")) }).await;
        let untried = async { panic!("it was tried") };
        assert_eq!(steps.take::<()>("fine", untried).await, None);
        let skipped = "skipped because an earlier step failed".to_owned();
        assert_eq!(
            verdicts(steps),
            [
                ("one", Verdict::Passed, "fine".to_owned()),
                ("two", Verdict::Failed, "broken".to_owned()),
                ("three", Verdict::Skipped, skipped.clone()),
                ("four", Verdict::Skipped, skipped),
            ]
        );
    }

    #[tokio::test]
    async fn what_has_to_be_undone_is_tried_anyway() {
        let mut steps = Steps::new(PLAN).silent();
        steps.take("", async { Ok(()) }).await;
        steps.take::<()>("", async { Err(Error::plain("broken")) }).await;
        steps.take_anyway("", async { Ok(()) }).await;
        assert_eq!(
            verdicts(steps),
            [
                ("one", Verdict::Passed, String::new()),
                ("two", Verdict::Failed, "broken".to_owned()),
                ("three", Verdict::Passed, String::new()),
                ("four", Verdict::Skipped, String::new()),
            ]
        );
    }
}
