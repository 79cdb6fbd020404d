//! What a running app has said, and whom it has asked for, on its way into the database.

use std::sync::Arc;

use service::caller;
use service::pipeline::{AppConfig, AppLog, AppLogLevel, AppLogSource};

use crate::asked_hosts::AskedHosts;
use crate::shared::Core;

/// Lines of a log; more than a few hundred, or than half a megabyte, are counted and dropped.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) waiting: Vec<AppLog>,
    /// What their messages take.
    pub(crate) bytes: usize,
    pub(crate) dropped: usize,
}

/// What was not written down yet.
pub(crate) struct PendingOutput {
    pub(crate) core: Arc<Core>,
    pub(crate) config: AppConfig,
    pub(crate) lines: Lines,
    pub(crate) asked: Arc<AskedHosts>,
}

impl PendingOutput {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.waiting.is_empty() && self.asked.to_note().is_empty()
    }

    /// In the turn of the organization whose app it is.
    pub(crate) async fn write_down(self) {
        let organization = self.config.organization_id;
        caller::on_behalf_of_organization(organization, Box::pin(self.write())).await;
    }

    async fn write(mut self) {
        // The hosts first: what could not be listed is said in the log.
        let hosts = self.asked.to_note();
        if !hosts.is_empty() {
            self.note(&hosts).await;
        }
        self.add_summaries().await;
        if let Err(error) = self.core.service.log_app(&self.config, &self.lines.waiting).await {
            tracing::error!(error = &error as &dyn std::error::Error, "could not write an app's log");
        }
    }

    async fn note(&self, hosts: &[(String, bool)]) {
        match self.core.service.note_reached_hosts(&self.config, hosts).await {
            Ok(forgotten) => self.asked.set_noted(hosts, &forgotten),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "could not write down the hosts of an app"
            ),
        }
    }

    async fn add_summaries(&mut self) {
        let lost = self.asked.take_lost();
        if lost > 0 {
            let count = i64::try_from(lost).unwrap_or(i64::MAX);
            if let Err(error) = self.core.service.count_unlisted_hosts(&self.config, count).await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "could not count the unlisted hosts of an app"
                );
            }
            self.warn(format!(
                "{lost} more hosts were requested than are listed: the app asks for too many."
            ));
        }
        let dropped = self.lines.dropped;
        if dropped > 0 {
            self.warn(format!("{dropped} more lines were dropped: the app logs too much."));
        }
    }

    fn warn(&mut self, message: String) {
        self.lines.waiting.push(AppLog {
            source: AppLogSource::System,
            level: AppLogLevel::Warn,
            message,
            created_at: self.core.service.clock().now(),
        });
    }
}
