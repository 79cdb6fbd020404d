//! Sending what waits in the outbox.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use boxed::boxed;
use futures_util::future::join_all;
use outbound::{Mail, MailError, Mailer};
use service::Result;
use service::mail::{InFlight, Outgoing, Undelivered};
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::email_templates::Rendered;
use crate::work::did;
use crate::{Identity, email_templates};

/// How often new mail is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// What those share who send mail at the same time.
struct Sending {
    in_flight: Mutex<InFlight>,
    /// Something was sent, so what waited for it can be.
    ended: Notify,
    /// One looks for mail at a time.
    look: tokio::sync::Mutex<Interval>,
}

impl Default for Sending {
    fn default() -> Self {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            in_flight: Mutex::default(),
            ended: Notify::new(),
            look: tokio::sync::Mutex::new(look),
        }
    }
}

impl Sending {
    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identity {
    /// Sends one mail, if one is due. Tells whether there was one, so that the next can follow immediately.
    #[boxed]
    pub async fn deliver_mail(&self) -> Result<bool> {
        let Some(mailer) = &self.deps.mailer else {
            return Ok(false);
        };
        let Some(outgoing) = self.service.next_mail().await? else {
            return Ok(false);
        };
        self.hand_over(mailer, &outgoing).await?;
        Ok(true)
    }

    /// Sends mail until told to stop, several at a time, so that one that is slow to hand over delays no others. What is under
    /// way is finished first.
    pub(crate) async fn deliver_all_mail(&self, stop: &CancellationToken) {
        let Some(mailer) = &self.deps.mailer else { return };
        let sending = Sending::default();
        // All of them go on at the same time: one may wait for the database while another holds it.
        join_all((0..InFlight::MAX).map(|_| self.deliver_in_turn(mailer, &sending, stop))).await;
    }

    async fn deliver_in_turn(&self, mailer: &Mailer, sending: &Sending, stop: &CancellationToken) {
        while let Some(outgoing) = self.wait_for_mail(sending, stop).await {
            did(self.hand_over(mailer, &outgoing).await.map(|()| true));
            sending.in_flight().end(&outgoing);
            sending.ended.notify_one();
        }
    }

    /// The next mail that may be sent beside those that are. `None`: it is time to stop.
    async fn wait_for_mail(&self, sending: &Sending, stop: &CancellationToken) -> Option<Outgoing> {
        let mut look = sending.look.lock().await;
        while !stop.is_cancelled() {
            let in_flight = sending.in_flight().clone();
            match self.service.next_mail_beside(&in_flight).await {
                Ok(Some(outgoing)) => {
                    sending.in_flight().start(&outgoing);
                    return Some(outgoing);
                }
                Ok(None) => {}
                Err(error) => {
                    did(Err(error));
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sending.ended.notified() => {}
                _ = look.tick() => {}
            }
        }
        None
    }

    async fn hand_over(&self, mailer: &Mailer, outgoing: &Outgoing) -> Result<()> {
        let Err(error) = mailer.send(&written(outgoing)).await else {
            return self.service.mail_is_sent(outgoing).await;
        };
        tracing::warn!(
            mail = %outgoing.id,
            attempts = outgoing.attempts,
            error = &error as &dyn std::error::Error,
            "an email was not sent"
        );
        self.service.mail_is_undelivered(outgoing, &reason(&error)).await
    }
}

fn written(outgoing: &Outgoing) -> Mail {
    let Rendered { subject, text, html } = email_templates::render(&outgoing.email);
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
        is_permanent: error.is_permanent(),
    }
}
