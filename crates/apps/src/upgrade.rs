//! Newer code of apps that come from elsewhere: whether there is some, what it would change, and moving to it.

use boxed::boxed;
use service::access::{Caller, ChangeApps, ReadApps};
use service::pipeline::{App, AppPatch, Collection, Difference, Fetched, Files, Package, PluginType};
use service::{AppId, Error, Result};

use crate::apps::Apps;
use crate::code::{expect, url_of};
use crate::comparison::{FileChange, different_files};
use crate::fair_shares::CodePermit;
use crate::reading::fetched;
use crate::source::{AppUrl, Checksum};

/// Which code an app is to have.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// None: the newest.
    pub tag: Option<String>,
    /// The checksum that it must have. If the app is pinned, it is pinned to this one from then on.
    pub sha256: Option<String>,
}

/// What an upgrade would bring.
#[derive(Debug)]
pub struct Upgrade {
    /// What the code is called where it comes from.
    pub tag: Option<String>,
    pub sha256: String,
    pub difference: Difference,
    /// The files that are added, taken away or not the same.
    pub files: Vec<FileChange>,
    /// For as long as the files are in memory.
    pub permit: CodePermit,
}

/// Code from where an app comes from that is not what it has, and what that is called there.
struct Newer {
    package: Package,
    tag: Option<String>,
    /// The files that the app has.
    before: Files,
    /// For as long as the files are in memory.
    permit: CodePermit,
}

impl Apps {
    /// Asks where an app comes from what its newest tag is.
    #[boxed]
    pub async fn check_for_updates(&self, caller: &Caller<ReadApps>, collection: Collection, id: AppId) -> Result<App> {
        let service = &self.core.service;
        // Before the app is read: it may be large, and many may wait.
        let _permit = self.download_permit(caller.user).await?;
        let app = service.app(caller, collection, id).await?;
        let token = service.private_token(&app)?;
        let Some(url) = url_of(&app)? else {
            return Ok(app);
        };
        let tag = self.core.sources.latest(&url.origin, token.as_ref()).await;
        let tag = tag.map_err(|error| fetched(&error))?;
        service.note_latest_tag(&app, Some(&tag)).await
    }

    /// Moves to other code. What does not load, or is not what was expected, is refused, and nothing changes.
    #[boxed]
    pub async fn upgrade(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: &Wanted,
    ) -> Result<(App, Difference)> {
        let (app, newer) = self.newer_code(caller, collection, id, wanted).await?;
        let Some(Newer {
            package,
            tag,
            permit: _permit,
            ..
        }) = newer
        else {
            return Ok((app, Difference::default()));
        };
        let url = match url_of(&app)? {
            Some(url) if url.pinned.is_some() => {
                let pinned = checksum(wanted)?.or(url.pinned);
                expect("sha256", pinned.as_ref(), &package.files)?;
                Some(AppUrl { pinned, ..url }.to_string())
            }
            _ => None,
        };
        let service = &self.core.service;
        service
            .change_app_code(caller, &app, &AppPatch::default(), package, Fetched { tag, url })
            .await
    }

    /// What an upgrade would make of an app, before anybody agrees to it. None: nothing, the code is the same.
    #[boxed]
    pub async fn preview_upgrade(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: &Wanted,
    ) -> Result<(App, Option<Upgrade>)> {
        let (app, newer) = self.newer_code(caller, collection, id, wanted).await?;
        let Some(Newer {
            package,
            tag,
            before,
            permit,
        }) = newer
        else {
            return Ok((app, None));
        };
        let upgrade = Upgrade {
            tag: tag.clone(),
            sha256: package.sha256.clone(),
            difference: app.difference_with(&package.metadata),
            files: different_files(&before, &package.files),
            permit,
        };
        Ok((app.with_code(&package.metadata, tag)?, Some(upgrade)))
    }

    async fn newer_code(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: &Wanted,
    ) -> Result<(App, Option<Newer>)> {
        let tag = wanted.tag.as_deref();
        let expected = checksum(wanted)?;
        let service = &self.core.service;
        // Before the app is read: it may be large, and many may wait. In a dry run nothing is fetched.
        let permit = if caller.actor.request.is_dry_run {
            None
        } else {
            Some(self.download_permit(caller.user).await?)
        };
        let (app, token) = service.app_to_upgrade(caller, collection, id).await?;
        let Some(permit) = permit else {
            return Ok((app, None));
        };
        let Some((files, found)) = self.elsewhere(&app, token.as_ref(), tag).await? else {
            return Ok((app, None));
        };
        if let (Some(newest), None) = (&found, tag) {
            service.note_latest_tag(&app, Some(newest)).await?;
        }
        expect("sha256", expected.as_ref(), &files)?;
        // Only now: what is fetched may take its time, and the files that the app has take room.
        let (seen, _) = service.app_to_change(caller, collection, id).await?;
        if seen.app.version != app.version || seen.app.url != app.url {
            return Err(service::pipeline::source_changed());
        }
        if files == seen.files && found == seen.app.tag {
            return Ok((seen.app, None));
        }
        let newer = Newer {
            before: seen.files,
            package: self.read(caller, files).await?,
            tag: found,
            permit,
        };
        Ok((seen.app, Some(newer)))
    }

    /// Looks for newer tags of the apps that nobody has asked about for a day. True: there was one.
    #[boxed]
    pub async fn check_one(&self) -> Result<bool> {
        let service = &self.core.service;
        let Some((app, token)) = service.claim_app_to_check().await? else {
            return Ok(false);
        };
        if let Some(url) = url_of(&app)? {
            match self.core.sources.latest(&url.origin, token.as_ref()).await {
                Ok(tag) => drop(service.note_latest_tag(&app, Some(&tag)).await?),
                Err(error) => {
                    tracing::info!(app = %app.id, error = &error as &dyn std::error::Error, "no newer tag could be found");
                }
            }
        }
        Ok(true)
    }

    /// The code where an app comes from. None: it is written here, and there is nothing newer anywhere.
    async fn elsewhere(
        &self,
        app: &App,
        token: Option<&secrecy::SecretString>,
        tag: Option<&str>,
    ) -> Result<Option<(Files, Option<String>)>> {
        match (&app.url, url_of(app)?) {
            (_, Some(url)) => self.newest(&url, token, tag).await.map(Some),
            (Some(url), None) if app.plugin_type == PluginType::Local => {
                let files = self.core.sources.local(url).await.map_err(|error| fetched(&error))?;
                Ok(Some((files, None)))
            }
            _ => Ok(None),
        }
    }
}

fn checksum(wanted: &Wanted) -> Result<Option<Checksum>> {
    let wrong = || {
        Error::invalid(
            "sha256",
            "invalid_input",
            "a SHA-256 checksum has 64 hexadecimal digits",
        )
    };
    let parse = |text: &String| Checksum::parse(text).ok_or_else(wrong);
    wanted.sha256.as_ref().map(parse).transpose()
}
