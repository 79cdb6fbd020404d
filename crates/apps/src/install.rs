//! Creating apps, and changing their files.

use std::collections::BTreeMap;

use boxed::boxed;
use service::access::{Caller, ChangeApps};
use service::pipeline::{App, AppPatch, AppWithFiles, Collection, Fetched, NewApp, PluginType};
use service::{AppId, Error, Result};

use crate::apps::Apps;
use crate::code::expect;
use crate::reading::fetched;
use crate::source::AppUrl;

/// Other files for an app, and what else is to be changed with them.
#[derive(Debug, Clone, Default)]
pub struct SourceChange {
    /// None takes a file away.
    pub files: BTreeMap<String, Option<String>>,
    pub patch: AppPatch,
    /// The version that whoever changes it has seen. If there is another by now, nothing changes.
    pub seen: Option<i64>,
}

impl Apps {
    /// Brings the code, reads it, and only then writes anything down.
    #[boxed]
    pub async fn create(&self, caller: &Caller<ChangeApps>, collection: Collection, new: &NewApp) -> Result<App> {
        let service = &self.core.service;
        service.may_change_apps(caller).await?;
        let mut new = new.clone();
        let is_dry_run = caller.actor.request.is_dry_run;
        let (mut token, mut _permit) = (None, None);
        let mut files = new.source.clone().map(|files| (files, None));
        match (&new.url, new.plugin_type) {
            (Some(url), PluginType::Local) if !is_dry_run => {
                _permit = Some(self.download_permit(caller.user).await?);
                let local = self.core.sources.local(url).await.map_err(|error| fetched(&error))?;
                files = Some((local, None));
            }
            (Some(url), plugin_type) if plugin_type.is_remote() => {
                let url = AppUrl::parse(url).map_err(|error| fetched(&error))?;
                // In a dry run nobody is asked for anything.
                if !is_dry_run {
                    _permit = Some(self.download_permit(caller.user).await?);
                    let (found, tag) = self.newest(&url, url.token.as_ref(), tag_of(&new)).await?;
                    expect("url", url.pinned.as_ref(), &found)?;
                    files = Some((found, tag));
                }
                (new.url, token) = (Some(url.to_string()), url.token);
            }
            (None, plugin_type) if plugin_type.is_remote() => {
                let detail = "apps of this type need the URL of a repository or package";
                return Err(Error::invalid("url", "required", detail));
            }
            (Some(url), _) if url.contains("#sha256=") => {
                // It would look like code that was verified.
                let detail = "only downloaded code can be pinned to a checksum: remove the #sha256= fragment";
                return Err(Error::invalid("url", "invalid_input", detail));
            }
            _ => {}
        }
        let found = match files {
            Some((files, tag)) => Some((self.read(caller, files).await?, tag)),
            None => None,
        };
        service
            .create_app(caller, collection, &new, token.as_ref(), found)
            .await
    }

    /// Changes files. What does not load is refused, and nothing changes.
    #[boxed]
    pub async fn update_source(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        change: &SourceChange,
    ) -> Result<AppWithFiles> {
        let service = &self.core.service;
        // What is changed is in memory several times until it was read.
        let _permit = self.core.updates.permit(caller.user).await?;
        let (seen, _) = service.app_to_change(caller, collection, id).await?;
        if change.seen.is_some_and(|version| version != seen.app.version) {
            return Err(service::pipeline::source_changed());
        }
        not_pinned(&seen.app)?;
        let mut files = seen.files.clone();
        for (name, text) in &change.files {
            match text {
                Some(text) => drop(files.insert(name.clone(), text.clone())),
                None => drop(files.remove(name)),
            }
        }
        if files == seen.files {
            let app = service
                .update_app(caller, collection, id, &change.patch, &service::no_precondition)
                .await?;
            return Ok(AppWithFiles { app, files, turn: None });
        }
        let package = self.read(caller, files.clone()).await?;
        let (app, _) = service
            .change_app_code(caller, &seen.app, &change.patch, package, Fetched::default())
            .await?;
        Ok(AppWithFiles { app, files, turn: None })
    }
}

fn tag_of(new: &NewApp) -> Option<&str> {
    new.rest.tag.as_ref()?.as_deref()
}

/// The code of an app that is pinned is its publisher's, not edited here.
fn not_pinned(app: &App) -> Result<()> {
    if app.is_pinned() {
        let detail = "this app is pinned to a checksum, so its files cannot be edited; copy them into a new app";
        return Err(Error::refused("pinned", detail));
    }
    Ok(())
}
