//! Sending what waits in the outbox.

use outbound::{Mail, MailError};
use service::Result;
use service::mail::{Outgoing, Undelivered};

use crate::letters::Rendered;
use crate::{Identity, letters};

impl Identity {
    /// Sends one mail, if one is due. Tells whether there was one, so that the next can follow at once.
    pub async fn deliver_mail(&self) -> Result<bool> {
        let Some(mailer) = &self.outside.mailer else {
            return Ok(false);
        };
        let Some(outgoing) = self.service.next_mail().await? else {
            return Ok(false);
        };
        match mailer.send(&written(&outgoing)).await {
            Ok(()) => self.service.mail_is_sent(&outgoing).await?,
            Err(error) => {
                tracing::warn!(
                    mail = %outgoing.id,
                    attempts = outgoing.attempts,
                    error = &error as &dyn std::error::Error,
                    "a mail was not sent"
                );
                self.service.mail_is_undelivered(&outgoing, &reason(&error)).await?;
            }
        }
        Ok(true)
    }
}

fn written(outgoing: &Outgoing) -> Mail {
    let Rendered { subject, text, html } = letters::render(&outgoing.letter);
    Mail {
        to: outgoing.to.clone(),
        to_name: None,
        reply_to: outgoing.reply_to.clone(),
        subject,
        text,
        html,
        // The same at every attempt, so that a mail that went out just before a crash is known as one.
        id: outgoing.id.to_string(),
    }
}

fn reason(error: &MailError) -> Undelivered {
    Undelivered {
        reason: error.to_string(),
        is_lasting: error.is_lasting(),
    }
}
