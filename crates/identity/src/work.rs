//! Work that goes on automatically: sending mail, looking at domains again.

use std::time::Duration;

use boxed::boxed;
use futures_util::future::join_all;
use service::Result;
use service::access::Actor;
use service::domains::Domain;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Identity;

/// Domains are due once a day; nobody waits for the minute.
const RECHECK_DOMAINS_EVERY: Duration = Duration::from_mins(1);
const CHECK_DOMAINS_EVERY: Duration = Duration::from_secs(5);
/// New domains that are looked for together, each of another organization. A look may take five seconds.
const CHECKS_AT_A_TIME: i64 = 8;

impl Identity {
    /// Works until told to stop; what is in progress is finished first.
    #[boxed]
    pub async fn work(&self, stop: CancellationToken) {
        let stop = &stop;
        let mail = self.deliver_all_mail(stop);
        let verified = now_and_then(stop, RECHECK_DOMAINS_EVERY, move || {
            exhaust(stop, move || self.recheck_domain())
        });
        let unverified = now_and_then(stop, CHECK_DOMAINS_EVERY, move || async move {
            did(self.check_unverified_domains().await);
        });
        // Apart from each other: mail does not wait for somebody's name server, nor one domain for all the others.
        // Boxed, for together they are large.
        tokio::join!(Box::pin(mail), Box::pin(verified), Box::pin(unverified));
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    #[boxed]
    pub async fn step(&self) -> Result<bool> {
        Ok(self.deliver_mail().await? | self.recheck_domain().await? | self.check_unverified_domains().await?)
    }

    /// Looks for the record of a verified domain that has not been looked at for a day.
    #[boxed]
    pub async fn recheck_domain(&self) -> Result<bool> {
        match self.service.domain_to_recheck().await? {
            Some(domain) => self.look_at(&domain).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Looks for the records of new domains that somebody waits to see verified: some at once, one of each organization.
    #[boxed]
    pub async fn check_unverified_domains(&self) -> Result<bool> {
        let unverified = self.service.unverified_domains(CHECKS_AT_A_TIME).await?;
        for looked in join_all(unverified.iter().map(|domain| self.look_at(domain))).await {
            looked?;
        }
        Ok(!unverified.is_empty())
    }

    async fn look_at(&self, domain: &Domain) -> Result<()> {
        let lookup = self.look_for_record(domain).await;
        self.service
            .settle_domain(&Actor::system(), domain.organization_id, domain.id, &lookup)
            .await?;
        Ok(())
    }
}

/// Works immediately and then every so often, until told to stop.
async fn now_and_then<F: Future<Output = ()>>(stop: &CancellationToken, every: Duration, mut work: impl FnMut() -> F) {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            _ = tick.tick() => work().await,
        }
    }
}

/// Does all that is due, one after the other, unless told to stop. What fails is tried again when its time comes.
async fn exhaust<F: Future<Output = Result<bool>>>(stop: &CancellationToken, mut work: impl FnMut() -> F) {
    while !stop.is_cancelled() && did(work().await) {}
}

/// Whether something was done.
pub(crate) fn did(worked: Result<bool>) -> bool {
    worked.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "background work failed");
        false
    })
}
