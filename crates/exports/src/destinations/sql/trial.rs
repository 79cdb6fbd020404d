//! Trying things out one after the other, until one fails.

use chrono::DateTime;
use hogql::{Model, Query};
use service::{ExportId, RunId};
use uuid::Uuid;

use super::Stage;
use crate::{Delivery, Error, Step, Verdict};

/// What is tried, in this order: a name for programs and what it means.
pub(in crate::destinations) type Plan = &'static [(&'static str, &'static str)];

/// How far it came.
pub(in crate::destinations) struct Trial {
    plan: Plan,
    steps: Vec<Step>,
}

impl Trial {
    pub(in crate::destinations) fn new(plan: Plan) -> Self {
        Self {
            plan,
            steps: Vec::new(),
        }
    }

    /// Notes how far a connection came: its three steps are the first of every plan.
    pub(in crate::destinations) fn opened_to(mut self, stage: Stage) -> Self {
        let messages = [
            (Stage::Reach, "connected"),
            (Stage::Encrypt, "agreed"),
            (Stage::SignIn, "signed in"),
        ];
        for (_, message) in messages.into_iter().take_while(|(step, _)| *step != stage) {
            self.passed(message);
        }
        self
    }

    /// The next step worked.
    pub(in crate::destinations) fn passed(&mut self, message: impl Into<String>) {
        self.note(Verdict::Passed, message.into());
    }

    /// The next step did not work; what is left is not tried.
    pub(in crate::destinations) fn failed(mut self, error: &Error) -> Vec<Step> {
        self.note(Verdict::Failed, error.sentence.clone());
        self.done()
    }

    pub(in crate::destinations) fn done(mut self) -> Vec<Step> {
        while self.steps.len() < self.plan.len() {
            self.note(Verdict::Skipped, "skipped because an earlier step failed".to_owned());
        }
        self.steps
    }

    fn note(&mut self, verdict: Verdict, message: String) {
        let Some((name, description)) = self.plan.get(self.steps.len()) else {
            return;
        };
        self.steps.push(Step {
            name,
            description: (*description).to_owned(),
            verdict,
            message,
        });
    }
}

/// A delivery of nothing that no export ever has.
pub(in crate::destinations) fn sample(layout: &Query) -> Delivery {
    Delivery {
        export: ExportId(Uuid::nil()),
        run: RunId(Uuid::nil()),
        team: 0,
        model: Model::Events,
        start: DateTime::UNIX_EPOCH,
        end: DateTime::UNIX_EPOCH,
        schema: events::schema(layout),
        is_custom: false,
        is_resend: false,
        resumed_after: crate::Receipt::default(),
        acknowledged: crate::Acknowledged::default(),
    }
}
