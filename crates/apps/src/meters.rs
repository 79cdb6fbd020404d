//! What `/metrics` tells of each configuration of an app.

use service::{AppConfigId, Series};

static CONFIGURATIONS: Series = Series::new();

/// How many events an app was handed in a turn, by what came of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handed {
    pub(crate) delivered: u64,
    pub(crate) failed: u64,
    pub(crate) retried: u64,
}

impl Handed {
    pub(crate) fn count(self, id: AppConfigId) {
        let configuration = CONFIGURATIONS.label(id);
        let outcomes = [
            ("delivered", self.delivered),
            ("failed", self.failed),
            ("retried", self.retried),
        ];
        for (outcome, count) in outcomes.into_iter().filter(|(_, count)| *count > 0) {
            let labels = [
                ("configuration", configuration.clone()),
                ("outcome", outcome.to_owned()),
            ];
            metrics::counter!("hedgerow_app_events_total", &labels).increment(count);
        }
    }
}
