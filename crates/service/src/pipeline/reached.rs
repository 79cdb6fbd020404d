//! The hosts that apps have sent requests to, or tried to.

use boxed::boxed;

use super::lookup::{CONFIGURE, allow, find_app, find_config};
use super::types::{AppConfig, AppLogLevel, Collection, ReachedHost};
use super::{logs, sql};
use crate::Service;
use crate::access::{Actor, Caller};
use crate::activity::Entry;
use crate::error::Result;
use crate::id::{AppConfigId, AppId};
use crate::page::{Page, Window};

/// So many hosts are remembered for each configuration; names can be made up without end.
const MAX_REACHED: i64 = 200;

impl Service {
    /// In the order of their names.
    pub async fn reached_hosts<P>(
        &self,
        caller: &Caller<P>,
        collection: Collection,
        app: AppId,
        config: AppConfigId,
        window: Window,
    ) -> Result<Page<ReachedHost>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, app).await?;
        let config = find_config(&mut db, caller, app, config).await?;
        sql::hosts::page(&mut db, config.id, window).await
    }

    /// Remembers which hosts an app asked for, and whether it was allowed. The first refusal of a host is recorded where the organization
    /// sees it. Returns the hosts that have given way to others.
    #[boxed]
    pub async fn note_reached_hosts(&self, config: &AppConfig, hosts: &[(String, bool)]) -> Result<Vec<String>> {
        let mut db = self.write().await?;
        let (mut entries, mut forgotten) = (Vec::new(), Vec::new());
        // Tasks and events of one configuration note hosts at the same time.
        if sql::usage::lock(&mut db, config.id).await?.is_none() {
            return Ok(Vec::new());
        }
        let mut count = sql::hosts::count(&mut db, config.id).await?;
        for (host, is_allowed) in hosts {
            let known = sql::hosts::find(&mut db, config.id, host).await?;
            if known.is_none() && count >= MAX_REACHED {
                if !is_allowed {
                    // Nothing was sent there, and names can be made up without end.
                    continue;
                }
                forgotten.extend(sql::hosts::forget_one(&mut db, config.id).await?);
                count -= 1;
            }
            count += i64::from(known.is_none());
            if !sql::hosts::put(&mut db, config.id, host, *is_allowed).await? {
                // The configuration was deleted in the meantime.
                return Ok(Vec::new());
            }
            if !is_allowed && known.is_none_or(|known| known.is_allowed) {
                let message = format!("Request to {host} blocked: the host is not allowed.");
                logs::say(&mut db, config, AppLogLevel::Warn, &message).await?;
                entries.push(Entry::happened(config, "host_refused").noting("host", host));
            }
        }
        // One that gave way to another may have come back since.
        forgotten.retain(|gone| hosts.iter().all(|(host, _)| host != gone));
        db.commit(&Actor::system(), &entries).await?;
        Ok(forgotten)
    }

    /// Counts hosts that an app asked for and that could not be listed. The first time is recorded where no line of a log can displace it:
    /// an app can write as many of these as it likes.
    #[boxed]
    pub async fn count_unlisted_hosts(&self, config: &AppConfig, hosts: i64) -> Result<()> {
        let mut db = self.write().await?;
        if sql::usage::lock(&mut db, config.id).await?.is_none() {
            return Ok(());
        }
        let count = sql::usage::add_unlisted_hosts(&mut db, config.id, hosts).await?;
        let is_first = count == hosts;
        let entries: Vec<Entry> = is_first
            .then(|| Entry::happened(config, "hosts_unlisted"))
            .into_iter()
            .collect();
        db.commit(&Actor::system(), &entries).await
    }
}
