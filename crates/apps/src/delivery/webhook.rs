//! Sends the webhooks that apps compose.

use std::time::Duration;

use sandbox::{Failure, Json};

use crate::event_payload::composed;
use crate::host::Outlet;

const WEBHOOK_TIME: Duration = Duration::from_secs(10);
/// What is read of a webhook's answer: only its status counts.
const WEBHOOK_ANSWER: usize = 64 * 1024;

/// Sends what an app composed.
pub(super) async fn send(outlet: &Outlet, webhook: &Json) -> Result<(), Failure> {
    let wrong = |message: String, is_retry: bool| Failure::Thrown {
        name: "WebhookError".to_owned(),
        message,
        stack: String::new(),
        is_retry,
    };
    let request = composed(webhook).map_err(|message| wrong(message, false))?;
    let client = outlet.http().within(WEBHOOK_TIME).limited_to(WEBHOOK_ANSWER);
    let answer = client.send(request).await;
    let status = match answer {
        Ok(answer) => answer.status(),
        Err(error @ (outbound::HttpError::Refused(_) | outbound::HttpError::HostNotAllowed { .. })) => {
            return Err(wrong(error.to_string(), false));
        }
        // Whoever took it and then said too much has taken it.
        Err(outbound::HttpError::TooLarge { .. }) => return Ok(()),
        Err(error) => return Err(wrong(error.to_string(), true)),
    };
    if status.is_success() {
        return Ok(());
    }
    let is_retryable = status.is_server_error() || [408, 425, 429].contains(&status.as_u16());
    Err(wrong(format!("the webhook returned status {status}"), is_retryable))
}
