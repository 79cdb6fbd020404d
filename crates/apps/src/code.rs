//! The code of an app on its way in: downloaded, compared with its checksum, checked and read.

use service::access::{Caller, ChangeApps};
use service::pipeline::{App, Files, Package, check_source};
use service::{Error, Result, UserId};

use crate::apps::Apps;
use crate::fair_shares::CodePermit;
use crate::reading::{BUSY_FOR, fetched, package, unread};
use crate::source::{AppUrl, Checksum};

/// How many files an app may have, wherever they come from.
const MAX_FILES: usize = 1000;
const MAX_NAME: usize = 200;

impl Apps {
    pub(crate) async fn download_permit(&self, user: UserId) -> Result<CodePermit> {
        self.core.downloads.permit(user).await
    }

    pub(crate) async fn newest(
        &self,
        url: &AppUrl,
        token: Option<&secrecy::SecretString>,
        tag: Option<&str>,
    ) -> Result<(Files, Option<String>)> {
        let sources = &self.core.sources;
        let tag = match tag {
            Some(tag) => tag.to_owned(),
            None => sources
                .latest(&url.origin, token)
                .await
                .map_err(|error| fetched(&error))?,
        };
        let files = sources.download(&url.origin, &tag, token).await;
        Ok((files.map_err(|error| fetched(&error))?, Some(tag)))
    }

    pub(crate) async fn read(&self, caller: &Caller<ChangeApps>, files: Files) -> Result<Package> {
        check_names(&files)?;
        let files = aside(move || check_source(&files).map(|()| files)).await??;
        let (organization, person) = (caller.organization.0, caller.user.0);
        let reading = self.core.sandbox.read_for(organization, person, &files).await;
        let reading = reading.map_err(|error| unread(&error))?;
        aside(move || package(files, reading)).await
    }
}

/// Files may be long: nobody waits for this thread while they are written, or their checksum is made.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let broken = |_| Error::Unavailable {
        detail: "the server is shutting down".to_owned(),
        wait: BUSY_FOR,
    };
    tokio::task::spawn_blocking(work).await.map_err(broken)
}

/// Where its code is fetched from, if it is fetched.
pub(crate) fn url_of(app: &App) -> Result<Option<AppUrl>> {
    let url = app.url.as_deref().filter(|_| app.plugin_type.is_remote());
    let url = url.map(AppUrl::parse).transpose();
    url.map_err(|error| fetched(&error))
}

/// Code that is not what somebody has reviewed is not taken, whoever sent it and whatever it is called.
pub(crate) fn expect(field: &'static str, pinned: Option<&Checksum>, files: &Files) -> Result<()> {
    let Some(pinned) = pinned else { return Ok(()) };
    let found = Checksum::of(files);
    if *pinned == found {
        return Ok(());
    }
    let detail = format!(
        "checksum mismatch: the files have {found}, not {pinned}, so nothing was changed. Review them, then pin the new \
         checksum"
    );
    Err(Error::invalid(field, "checksum_mismatch", detail))
}

fn check_names(files: &Files) -> Result<()> {
    let wrong = |detail: String| Err(Error::invalid("source", "invalid_input", detail));
    if files.len() > MAX_FILES {
        return wrong(format!("an app has at most {MAX_FILES} files"));
    }
    for name in files.keys() {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if name.chars().count() > MAX_NAME || !name.split('/').all(is_plain) || name.contains(['\\', '\0']) {
            return wrong(format!(
                "{name:?} is not a valid file name: use names such as index.ts or lib/send.ts"
            ));
        }
    }
    Ok(())
}
