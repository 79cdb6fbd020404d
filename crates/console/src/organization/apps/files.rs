//! Files that an app gets, or loses.

use apps::Apps;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeApps, ReadApps};
use service::{Error, Service};

use super::collection::AtApp;
use super::editor::{self, Editor, Fault};
use super::frame::frame_below;
use super::source::{at_file, calls, put};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/apps/{collection}/{app}/source/new/",
            get(ask_for_file).post(add),
        )
        .route(
            "/organizations/{organization}/apps/{collection}/{app}/source/delete/",
            get(ask).post(delete),
        )
}

#[derive(Template)]
#[template(path = "organization/apps/file_new.html")]
struct NewFilePage {
    frame: Frame,
    alerts: Vec<String>,
    action: String,
    file: Field,
    text: Editor,
    back: String,
    curl: AsCurl,
}

#[derive(Deserialize)]
struct NewFile {
    file: String,
    text: String,
}

async fn ask_for_file(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    let typed = NewFile {
        file: String::new(),
        text: String::new(),
    };
    new_file_page(&service, &access, at, &typed, &Problems::default()).await
}

async fn add(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(typed): Sent<NewFile>,
) -> Result<Response, Failure> {
    match make(&apps, &access, at, &typed).await {
        Ok(()) => Ok(go_to(&at_file(&access, at, typed.file.trim(), "source-saved"))),
        Err(error) => new_file_page(apps.service(), &access, at, &typed, &Problems::try_from(error)?).await,
    }
}

async fn make(apps: &Apps, access: &OrganizationAccess<ChangeApps>, at: AtApp, typed: &NewFile) -> Result<(), Error> {
    let name = typed.file.trim();
    let service = apps.service();
    // What is read of the code counts for the organization, and gives way before the wait for a turn to change it.
    let reader = access.also::<ReadApps>(service).await?;
    let version = {
        let found = service.app_with_files(&reader, at.collection(), at.app).await?;
        if found.files.contains_key(name) {
            let detail = "a file with this name already exists: edit it, or choose another name";
            return Err(Error::invalid("file", "unique", detail));
        }
        found.app.version
    };
    let text = editor::typed(&typed.text)?;
    put(apps, access, at, name, Some(text), version).await
}

async fn new_file_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    typed: &NewFile,
    problems: &Problems,
) -> Result<Response, Failure> {
    let app = service.app(&access.caller, at.collection(), at.app).await?;
    let below = format!("{}source/", at.path());
    let field = Field::text("file", "File name", "off").at_most(200);
    let name = typed.file.trim();
    let label = if name.is_empty() { "File contents" } else { name };
    let page = NewFilePage {
        frame: frame_below(access, at, app.name.to_string()).through(&below, "Source code"),
        alerts: editor::besides(problems, &["file"]),
        action: access.path(&format!("{below}new/")),
        file: field
            .hint("For example plugin.json or lib/send.ts.")
            .holding(typed.file.clone())
            .judged(problems),
        text: Editor::new("text", label, typed.text.clone(), Fault::all(problems)),
        back: access.path(&below),
        curl: AsCurl::new(service, calls(access, at, name, true)),
    };
    Ok(page_again(problems, &page))
}

#[derive(Template)]
#[template(path = "organization/apps/file_delete.html")]
struct DeletionPage {
    frame: Frame,
    alerts: Vec<String>,
    action: String,
    file: String,
    version: i64,
    back: String,
    curl: AsCurl,
}

#[derive(Debug, Default, Deserialize)]
struct FileQuery {
    #[serde(default)]
    file: String,
    /// Of the code that whoever asks has looked at.
    #[serde(default)]
    version: String,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    InQuery(asked): InQuery<FileQuery>,
) -> Result<Response, Failure> {
    let seen = asked.version.parse().ok();
    confirm_page(&service, &access, at, &asked.file, seen, &Problems::default()).await
}

#[derive(Deserialize)]
struct DeleteFileForm {
    file: String,
    version: i64,
}

async fn delete(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(DeleteFileForm { file, version }): Sent<DeleteFileForm>,
) -> Result<Response, Failure> {
    match put(&apps, &access, at, &file, None, version).await {
        Ok(()) => Ok(go_to(&at_file(&access, at, "", "file-deleted"))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            confirm_page(apps.service(), &access, at, &file, Some(version), &problems).await
        }
    }
}

/// `seen` is the version that the file was looked at in; without one, it is looked at now.
async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    file: &str,
    seen: Option<i64>,
    problems: &Problems,
) -> Result<Response, Failure> {
    let found = service.app_with_files(&access.caller, at.collection(), at.app).await?;
    if !found.files.contains_key(file) {
        return Err(Failure::NoSuchPage);
    }
    let below = format!("{}source/", at.path());
    let body = json!({ "source": { file: null } });
    let path = access.api(&format!("{}update_source/", at.api()));
    let call = Call::patch::<ChangeApps>("Delete the file", path).sending(body);
    let page = DeletionPage {
        frame: frame_below(access, at, found.app.name.to_string()).through(&below, "Source code"),
        alerts: super::changes::said(problems),
        action: access.path(&format!("{below}delete/")),
        file: file.to_owned(),
        version: seen.unwrap_or(found.app.version),
        back: at_file(access, at, file, ""),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &page))
}
