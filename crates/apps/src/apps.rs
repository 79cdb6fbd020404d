//! Everything about apps that takes more than the database: their source, the sandbox, the store of events.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use events::Events;
use outbound::Http;
use sandbox::{Budget, Layers, Sandbox};
use service::access::{Caller, ChangeApps, ReadApps};
use service::pipeline::{
    App, AppPatch, AppWithFiles, Collection, Difference, Fetched, Files, NewApp, Package, PluginType, check_source,
};
use service::{AppId, Error, FairSemaphore, Page, Result, Rotation, Service, Slow, Window, WorkerId};

use crate::cache::Caches;
use crate::catalog::{Catalog, Entry, Kind};
use crate::comparison::{FileChange, different_files};
use crate::instances::InstancePool;
use crate::reading::{BUSY_FOR, fetched, package, unread};
use crate::scheduler::Pass;
use crate::source::{AppUrl, Checksum, Sources};

/// Changes of apps' code that are under way at the same time: each has up to three copies of 8 MB.
const UPDATES_AT_ONCE: usize = 6;

/// Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct Apps {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) service: Service,
    pub(crate) events: Events,
    pub(crate) sandbox: Sandbox,
    sources: Sources,
    catalog: Catalog,
    /// What apps reach the outside with.
    pub(crate) http: Http,
    /// How many apps this process runs at once.
    pub(crate) slots: usize,
    pub(crate) worker: WorkerId,
    pub(crate) caches: Caches,
    /// The memory for events of apps that are being stored.
    pub(crate) captured: Budget,
    /// Whose turn it is to change the code of an app.
    pub(crate) updates: FairSemaphore,
    pub(crate) instances: InstancePool,
    /// Whose turn it is to have a task carried out, and events handed over.
    pub(crate) tasks_of: [Rotation; Pass::COUNT],
    pub(crate) events_of: [Rotation; Pass::COUNT],
    /// Whether tasks come before events, the next time.
    pub(crate) are_tasks_next: AtomicBool,
    /// What keeps apps apart from the server, once that was looked at.
    pub(crate) layers: Mutex<Option<Layers>>,
}

/// What [`Apps`] needs of the outside.
pub struct AppsDeps {
    pub sandbox: Sandbox,
    pub sources: Sources,
    pub catalog: Catalog,
    pub http: Http,
    pub slots: usize,
}

/// Other files for an app, and what else is to be changed with them.
#[derive(Debug, Clone, Default)]
pub struct SourceChange {
    /// None takes a file away.
    pub files: BTreeMap<String, Option<String>>,
    pub patch: AppPatch,
    /// The version that whoever changes it has seen. If there is another by now, nothing changes.
    pub seen: Option<i64>,
}

/// Which code an app is to have.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// None: the newest.
    pub tag: Option<String>,
    /// The checksum that it must have. If the app is pinned, it is pinned to this one from then on.
    pub sha256: Option<String>,
}

/// What an upgrade would bring.
#[derive(Debug, Clone)]
pub struct Upgrade {
    /// What the code is called where it comes from.
    pub tag: Option<String>,
    pub sha256: String,
    pub difference: Difference,
    /// The files that are added, taken away or not the same.
    pub files: Vec<FileChange>,
}

/// How many files an app may have, wherever they come from.
const MOST_FILES: usize = 1000;
const LONGEST_NAME: usize = 200;

impl Apps {
    pub fn new(service: Service, events: Events, deps: AppsDeps) -> Self {
        let id = uuid::Builder::from_random_bytes(service.random().bytes()).into_uuid();
        Self {
            core: Arc::new(Core {
                service,
                events,
                sandbox: deps.sandbox,
                sources: deps.sources,
                catalog: deps.catalog,
                http: deps.http,
                slots: deps.slots,
                worker: WorkerId(id),
                caches: Caches::default(),
                captured: Budget::default(),
                updates: FairSemaphore::new("the app loader", UPDATES_AT_ONCE, Slow::half_of(UPDATES_AT_ONCE)),
                instances: InstancePool::default(),
                tasks_of: Default::default(),
                events_of: Default::default(),
                are_tasks_next: AtomicBool::new(true),
                layers: Mutex::default(),
            }),
        }
    }

    pub fn service(&self) -> &Service {
        &self.core.service
    }

    /// Brings the code, reads it, and only then writes anything down.
    pub async fn create(&self, caller: &Caller<ChangeApps>, collection: Collection, new: &NewApp) -> Result<App> {
        let service = &self.core.service;
        service.may_change_apps(caller).await?;
        let mut new = new.clone();
        let is_dry_run = caller.actor.request.is_dry_run;
        let mut token = None;
        let mut files = new.source.clone().map(|files| (files, None));
        match (&new.url, new.plugin_type) {
            (Some(url), PluginType::Local) if !is_dry_run => {
                let local = self.core.sources.local(url).await.map_err(|error| fetched(&error))?;
                files = Some((local, None));
            }
            (Some(url), plugin_type) if plugin_type.is_remote() => {
                let url = AppUrl::parse(url).map_err(|error| fetched(&error))?;
                // In a dry run nobody is asked for anything.
                if !is_dry_run {
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
    pub async fn update_source(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        change: &SourceChange,
    ) -> Result<AppWithFiles> {
        let service = &self.core.service;
        // What is changed is in memory several times until it was read.
        let _turn = self.core.updates.acquire().await?;
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

    /// Asks where an app comes from what its newest tag is.
    pub async fn check_for_updates(&self, caller: &Caller<ReadApps>, collection: Collection, id: AppId) -> Result<App> {
        let service = &self.core.service;
        let app = service.app(caller, collection, id).await?;
        let token = service.private_token(&app)?;
        match url_of(&app)? {
            Some(url) => {
                let tag = self.core.sources.latest(&url.origin, token.as_ref()).await;
                let tag = tag.map_err(|error| fetched(&error))?;
                service.note_latest_tag(&app, Some(&tag)).await
            }
            None => Ok(app),
        }
    }

    /// Moves to other code. What does not load, or is not what was expected, is refused, and nothing changes.
    pub async fn upgrade(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: &Wanted,
    ) -> Result<(App, Difference)> {
        let (app, newer) = self.newer_code(caller, collection, id, wanted).await?;
        let Some(Newer { package, tag, .. }) = newer else {
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
    pub async fn preview_upgrade(
        &self,
        caller: &Caller<ChangeApps>,
        collection: Collection,
        id: AppId,
        wanted: &Wanted,
    ) -> Result<(App, Option<Upgrade>)> {
        let (app, newer) = self.newer_code(caller, collection, id, wanted).await?;
        let Some(Newer { package, tag, before }) = newer else {
            return Ok((app, None));
        };
        let upgrade = Upgrade {
            tag: tag.clone(),
            sha256: package.sha256.clone(),
            difference: app.difference_with(&package.offers),
            files: different_files(&before, &package.files),
        };
        Ok((app.with_code(&package.offers, tag)?, Some(upgrade)))
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
        let (seen, token) = service.app_to_change(caller, collection, id).await?;
        let app = seen.app;
        if caller.actor.request.is_dry_run {
            return Ok((app, None));
        }
        let Some((files, found)) = self.elsewhere(&app, token.as_ref(), tag).await? else {
            return Ok((app, None));
        };
        let app = match (&found, tag) {
            (Some(newest), None) => service.note_latest_tag(&app, Some(newest)).await?,
            _ => app,
        };
        expect("sha256", expected.as_ref(), &files)?;
        if files == seen.files && found == app.tag {
            return Ok((app, None));
        }
        let newer = Newer {
            before: seen.files,
            package: self.read(caller, files).await?,
            tag: found,
        };
        Ok((app, Some(newer)))
    }

    /// What can be installed into a collection.
    pub async fn catalog(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        window: Window,
    ) -> Result<Page<Entry>> {
        self.core.service.may_read_apps(caller).await?;
        let entries = self.core.catalog.entries().await;
        let fitting = entries.iter().filter(|entry| belongs(entry.r#type, collection));
        Ok(Page::cut(fitting.cloned().collect(), window))
    }

    /// Looks for newer tags of the apps that nobody has asked about for a day. True: there was one.
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

    async fn newest(
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

    async fn read(&self, caller: &Caller<ChangeApps>, files: Files) -> Result<Package> {
        check_names(&files)?;
        let files = aside(move || check_source(&files).map(|()| files)).await??;
        let reading = self.core.sandbox.read_for(caller.organization.0, &files).await;
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

/// Code from where an app comes from that is not what it has, and what that is called there.
struct Newer {
    package: Package,
    tag: Option<String>,
    /// The files that the app has.
    before: Files,
}

impl std::fmt::Debug for Apps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apps").finish_non_exhaustive()
    }
}

fn tag_of(new: &NewApp) -> Option<&str> {
    new.rest.tag.as_ref()?.as_deref()
}

/// Where its code is fetched from, if it is fetched.
fn url_of(app: &App) -> Result<Option<AppUrl>> {
    let url = app.url.as_deref().filter(|_| app.plugin_type.is_remote());
    let url = url.map(AppUrl::parse).transpose();
    url.map_err(|error| fetched(&error))
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

/// Code that is not what somebody has reviewed is not taken, whoever sent it and whatever it is called.
fn expect(field: &'static str, pinned: Option<&Checksum>, files: &Files) -> Result<()> {
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

/// The code of an app that is pinned is its publisher's, not edited here.
fn not_pinned(app: &App) -> Result<()> {
    if app.is_pinned() {
        let detail = "this app is pinned to a checksum, so its files cannot be edited; copy them into a new app";
        return Err(Error::refused("pinned", detail));
    }
    Ok(())
}

fn check_names(files: &Files) -> Result<()> {
    let wrong = |detail: String| Err(Error::invalid("source", "invalid_input", detail));
    if files.len() > MOST_FILES {
        return wrong(format!("an app has at most {MOST_FILES} files"));
    }
    for name in files.keys() {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if name.chars().count() > LONGEST_NAME || !name.split('/').all(is_plain) || name.contains(['\\', '\0']) {
            return wrong(format!(
                "{name:?} is not a valid file name: use names such as index.ts or lib/send.ts"
            ));
        }
    }
    Ok(())
}

/// Which kind of app goes where. Those that filter what comes in have no collection here.
fn belongs(kind: Kind, collection: Collection) -> bool {
    match collection {
        Collection::Destinations => kind == Kind::DataOut,
        Collection::FrontendApps => kind == Kind::Site,
        Collection::ImportApps => kind == Kind::DataIn,
    }
}
