//! Newer code than an app has, where it was fetched from.

use boxed::boxed;
use secrecy::SecretString;

use super::sql;
use super::types::{App, NewApp};
use crate::Service;
use crate::clock::Time;
use crate::error::{Error, Result};

/// How long it takes until somebody looks for a newer tag again.
pub(super) const CHECKED_EVERY: chrono::TimeDelta = chrono::TimeDelta::days(1);

impl Service {
    /// Remembers what the newest tag is. Nobody's action: it happened elsewhere.
    #[boxed]
    pub async fn note_latest_tag(&self, app: &App, tag: Option<&str>) -> Result<App> {
        let mut db = self.write().await?;
        let Some(mut app) = sql::apps::lock(&mut db, app.id).await? else {
            return Err(Error::NotFound("app"));
        };
        if let Some(tag) = tag {
            app.latest_tag = Some(tag.to_owned());
        }
        app.next_check_at = app.next_check_at.map(|_| db.now + CHECKED_EVERY);
        sql::apps::save(&mut db, &app).await?;
        db.commit_unrecorded().await?;
        Ok(app)
    }

    /// Takes the app whose newest tag nobody has looked at for a day.
    #[boxed]
    pub async fn claim_app_to_check(&self) -> Result<Option<(App, Option<SecretString>)>> {
        let now = self.core.clock.now();
        if !sql::apps::is_any_to_check(&mut self.core.store.read().await?, now).await? {
            return Ok(None);
        }
        let mut db = self.write().await?;
        let Some(mut app) = sql::apps::lock_to_check(&mut db).await? else {
            return Ok(None);
        };
        app.next_check_at = Some(db.now + CHECKED_EVERY);
        sql::apps::save(&mut db, &app).await?;
        db.commit_unrecorded().await?;
        let token = self.private_token(&app)?;
        Ok(Some((app, token)))
    }

    pub fn private_token(&self, app: &App) -> Result<Option<SecretString>> {
        let Some(encrypted) = &app.private_token else {
            return Ok(None);
        };
        let plain = self.core.instance.encryptor.decrypt(&app.token_place(), encrypted)?;
        Ok(Some(String::from_utf8_lossy(&plain).into_owned().into()))
    }
}

/// None: there is nowhere to look.
pub(super) fn first_check(new: &NewApp, now: Time) -> Option<Time> {
    (new.plugin_type.is_remote() && new.url.is_some()).then(|| now + CHECKED_EVERY)
}
