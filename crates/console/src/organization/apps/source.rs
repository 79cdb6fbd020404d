//! The files of an app: to read and to change.

use std::collections::BTreeMap;

use apps::{Apps, SourceChange};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeApps, Permission, ReadApps};
use service::pipeline::{AppPatch, AppWithFiles};
use service::{Error, Service};

use super::collection::AtApp;
use super::editor::{self, Editor, Fault};
use super::frame::frame_below;
use super::highlight::Listing;
use super::permissions::may_change;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::paging::with_query;
use crate::state::Console;
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/source/",
        get(show_source).post(save),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/source.html")]
struct SourcePage {
    frame: Frame,
    alerts: Vec<String>,
    base: String,
    files: Vec<FileTab>,
    file: String,
    version: i64,
    /// None: there is no such file, or one may not change it.
    editor: Option<Editor>,
    /// For those who may only read.
    listing: Option<Listing>,
    /// What is wrong with other files.
    faults: Vec<(String, Option<String>)>,
    is_fetched: bool,
    may_change: bool,
    curl: AsCurl,
}

struct FileTab {
    name: String,
    path: String,
    is_here: bool,
}

#[derive(Debug, Default, Deserialize)]
struct SourceQuery {
    #[serde(default)]
    file: String,
    #[serde(default)]
    done: String,
}

/// What the page is to show instead of what is kept.
#[derive(Default)]
struct Shown<'a> {
    file: &'a str,
    text: Option<&'a str>,
    /// Of what was typed over, so that nobody's change in between is lost by saving again.
    version: Option<i64>,
    done: &'a str,
}

async fn show_source(
    State(service): State<Service>,
    access: OrganizationAccess<ReadApps>,
    at: AtApp,
    InQuery(asked): InQuery<SourceQuery>,
) -> Result<Response, Failure> {
    let shown = Shown {
        file: &asked.file,
        text: None,
        version: None,
        done: &asked.done,
    };
    source_page(&service, &access, at, &shown, &Problems::default()).await
}

#[derive(Deserialize)]
struct SourceForm {
    file: String,
    version: i64,
    text: String,
}

async fn save(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(typed): Sent<SourceForm>,
) -> Result<Response, Failure> {
    match change(&apps, &access, at, &typed).await {
        Ok(()) => Ok(go_to(&at_file(&access, at, &typed.file, "source-saved"))),
        Err(error) => {
            let shown = Shown {
                file: &typed.file,
                text: Some(&typed.text),
                version: Some(typed.version),
                done: "",
            };
            source_page(apps.service(), &access, at, &shown, &Problems::try_from(error)?).await
        }
    }
}

async fn change(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    typed: &SourceForm,
) -> Result<(), Error> {
    let text = editor::typed(&typed.text)?;
    put(apps, access, at, &typed.file, Some(text), typed.version).await
}

/// No text takes the file away. If the code is no longer what was seen, nothing changes.
pub(super) async fn put(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    file: &str,
    text: Option<String>,
    seen: i64,
) -> Result<(), Error> {
    let change = SourceChange {
        files: BTreeMap::from([(file.to_owned(), text)]),
        patch: AppPatch::default(),
        seen: Some(seen),
    };
    let changed = apps.update_source(&access.caller, at.collection(), at.app, &change);
    changed.await.map(drop)
}

pub(super) fn at_file<P: Permission>(access: &OrganizationAccess<P>, at: AtApp, file: &str, done: &str) -> String {
    let path = access.path(&format!("{}source/", at.path()));
    with_query(&path, [("file", file), ("done", done)])
}

/// The file that is asked for, or else the one that is read first.
fn chosen(found: &AppWithFiles, asked: &str) -> String {
    if !asked.is_empty() {
        return asked.to_owned();
    }
    let first = ["index.ts", "index.js", "site.ts", "frontend.tsx"]
        .into_iter()
        .find(|name| found.files.contains_key(*name));
    let any = || found.files.keys().next().cloned().unwrap_or_default();
    first.map_or_else(any, str::to_owned)
}

async fn source_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    at: AtApp,
    shown: &Shown<'_>,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
    let found = service.app_with_files(&reader, at.collection(), at.app).await?;
    let file = chosen(&found, shown.file);
    let text = shown.text.or_else(|| found.files.get(&file).map(String::as_str));
    let may_change = may_change(service, access, &found.app).await?;
    let (here, others): (Vec<Fault>, Vec<Fault>) = Fault::all(problems)
        .into_iter()
        .partition(|fault| fault.file.as_ref() == Some(&file));
    let link = |name: &String| at_file(access, at, name, "");
    let tab = |name: &String| FileTab {
        name: name.clone(),
        path: link(name),
        is_here: *name == file,
    };
    let page = SourcePage {
        frame: frame_below(access, at, found.app.name.to_string()).noting(shown.done),
        alerts: editor::besides(problems, &[]),
        base: access.path(&at.path()),
        files: found.files.keys().map(tab).collect(),
        version: shown.version.unwrap_or(found.app.version),
        editor: text
            .filter(|_| may_change)
            .map(|text| Editor::new("text", &file, text, here).highlighted()),
        listing: text
            .filter(|_| !may_change)
            .and_then(|text| Listing::new("text", &file, text, &[])),
        faults: others
            .into_iter()
            .map(|fault| (fault.text, fault.file.as_ref().map(link)))
            .collect(),
        is_fetched: found.app.plugin_type.is_remote(),
        may_change,
        curl: AsCurl::new(service, calls(access, at, &file, may_change)),
        file,
    };
    Ok(page_again(problems, &page))
}

pub(super) fn calls<P: Permission>(
    access: &OrganizationAccess<P>,
    at: AtApp,
    file: &str,
    may_change: bool,
) -> Vec<Call> {
    let api = access.api(&at.api());
    let read = Call::get::<ReadApps>("Read the source code", format!("{api}source/"));
    let file = if file.is_empty() { "index.ts" } else { file };
    let body = json!({ "source": { file: "// The new contents of the file" } });
    let write = Call::patch::<ChangeApps>("Change a file", format!("{api}update_source/")).sending(body);
    [read].into_iter().chain(may_change.then_some(write)).collect()
}
