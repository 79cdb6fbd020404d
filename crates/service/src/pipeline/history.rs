//! The code that an app had before: looked at, and gone back to.

use boxed::boxed;

use super::difference::Difference;
use super::lookup::{CONFIGURE, INSTALL, allow, find_app, lock_app, own};
use super::sharing::publish;
use super::types::{App, Collection, Version, VersionName, VersionSeen};
use super::{sizes, sql};
use crate::Service;
use crate::access::{Caller, ChangeApps, ReadApps};
use crate::error::{Error, Result};
use crate::id::AppId;

impl Service {
    /// The versions of an app's code that are kept, newest first, without the code.
    #[boxed]
    pub async fn app_version_names(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<Vec<VersionName>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find_app(&mut db, caller, collection, id).await?;
        sql::versions::of_app(&mut db, app.id).await
    }

    /// The same, with the names of the files, and what the code can do.
    #[boxed]
    pub async fn app_versions(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        id: AppId,
    ) -> Result<Vec<VersionSeen>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        let app = find_app(&mut db, caller, collection, id).await?;
        sql::versions::seen(&mut db, &app).await
    }

    /// One of them, whole, for whoever could go back to it. Others may use an app that is for all, and see the code it has now:
    /// what it had before may hold what was taken out for their sake.
    #[boxed]
    pub async fn app_version(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        number: i64,
    ) -> Result<Version> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, INSTALL).await?;
        let app = find_app(&mut db, caller, collection, id).await?;
        own(caller, &app)?;
        let version = sql::versions::find(&mut db, app.id, number).await?;
        version.ok_or(Error::NotFound("version"))
    }

    /// Back to the code before, or to the version that was asked for.
    #[boxed]
    pub async fn roll_back_app(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: Option<i64>,
    ) -> Result<(App, Difference)> {
        let known = self.known_secrets(caller, (collection, id), None).await?;
        let mut db = self.write().await?;
        let (before, level) = lock_app(&mut db, caller, collection, id, &crate::no_precondition).await?;
        let kept = sql::versions::of_app(&mut db, id).await?;
        let is_wanted = |number: i64| wanted.map_or(number < before.version, |wanted| number == wanted);
        let Some(VersionName {
            number, tag, sha256, ..
        }) = kept.into_iter().find(|name| is_wanted(name.number))
        else {
            return Err(Error::refused(
                "no_such_version",
                "version not found: choose one from the app's list of versions",
            ));
        };
        if let Some(kept) = sql::versions::kept_bytes(&mut db, id, number).await? {
            kept.check()?;
        }
        let manifest = sql::versions::manifest(&mut db, id, number).await?;
        if before.is_global {
            publish(&mut db, caller, level).await?;
        }
        let mut app = before.clone().at(number, manifest);
        app.tag = tag;
        app.pin_to(sha256.as_deref())?;
        if let Some(metadata) = sql::versions::metadata(&mut db, &app).await? {
            app.take_over(&metadata);
        }
        sizes::check_app(Some(&before), &app)?;
        self.switch(db, caller, (&before, app), &known).await
    }
}
