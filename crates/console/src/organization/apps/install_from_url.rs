//! A new app whose code is somewhere else: in a repository, in a package, or in a folder of the server.

use apps::Apps;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};
use service::access::ChangeApps;
use service::pipeline::{App, AppFields, NewApp, PluginType};

use super::changes::said_besides;
use super::collection::{CollectionPages, Tab};
use super::frame::frame;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{encoded, go_to, page_again};
use crate::state::Console;
use crate::visitor::Sent;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/apps/{collection}/new/",
            get(ask_for_address).post(fetch),
        )
        .route(
            "/organizations/{organization}/apps/{collection}/new/folder/",
            get(ask_for_folder).post(read),
        )
}

/// The three ways to a new app.
pub(super) fn ways(collection: CollectionPages, here: &str) -> Vec<Tab> {
    let way = |(below, title): (&'static str, &'static str)| Tab {
        path: format!("{}{below}", collection.path()),
        title,
        is_here: below == here,
    };
    let all = [
        ("new/", "From URL"),
        ("new/folder/", "From folder"),
        ("new/code/", "Custom code"),
    ];
    all.into_iter().map(way).collect()
}

#[derive(Template)]
#[template(path = "organization/apps/new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    tabs: Vec<Tab>,
    lead: &'static str,
    action: String,
    fields: Vec<Field>,
    back: String,
    curl: AsCurl,
}

#[derive(Default, Deserialize)]
struct InstallForm {
    url: String,
    #[serde(default)]
    private_token: String,
    #[serde(default)]
    tag: String,
}

impl InstallForm {
    /// What is behind the question mark, or before the host, may be a secret, and is not shown again.
    fn shown_url(&self) -> String {
        let address = self.url.split(['?', '#']).next().unwrap_or_default().trim();
        let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        match host.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://{host}/{path}"),
            None => address.to_owned(),
        }
    }

    /// The API takes the token as part of the address, and so do we.
    fn whole_url(&self) -> String {
        let (url, token) = (self.url.trim(), self.private_token.trim());
        if token.is_empty() {
            return url.to_owned();
        }
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}private_token={}", encoded(token))
    }

    fn new_app(&self) -> NewApp {
        let tag = self.tag.trim();
        NewApp {
            plugin_type: PluginType::Custom,
            url: Some(self.whole_url()),
            source: None,
            rest: AppFields {
                tag: (!tag.is_empty()).then(|| Some(tag.to_owned())),
                ..AppFields::default()
            },
        }
    }

    fn fields(&self, problems: &Problems) -> Vec<Field> {
        let url = Field::text("url", "URL", "off").at_most(800);
        let token = Field::password("private_token", "Private token", "off").at_most(500);
        let tag = Field::text("tag", "Tag, branch or commit", "off").at_most(200);
        vec![
            url.hint(
                "A GitHub or GitLab repository, a folder or tag in one, or an npm package.",
            )
            .holding(self.shown_url())
            .focused()
            .judged(problems),
            token
                .optional()
                .hint("For private repositories and packages. Stored encrypted, sent only to that host, and never shown again.")
                .judged(problems),
            tag.optional()
                .hint("Defaults to the latest.")
                .holding(self.tag.clone())
                .judged(problems),
        ]
    }
}

async fn ask_for_address(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
) -> Response {
    address_page(
        &apps,
        &access,
        collection,
        &InstallForm::default(),
        &Problems::default(),
    )
}

async fn fetch(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    Sent(typed): Sent<InstallForm>,
) -> Result<Response, Failure> {
    match apps.create(&access.caller, collection.0, &typed.new_app()).await {
        Ok(app) => Ok(made(&access, collection, &app)),
        Err(error) => Ok(address_page(
            &apps,
            &access,
            collection,
            &typed,
            &Problems::try_from(error)?,
        )),
    }
}

/// On to the new app's page.
pub(super) fn made(access: &OrganizationAccess<ChangeApps>, collection: CollectionPages, app: &App) -> Response {
    let place = format!("{}{}/?done=app-installed", collection.path(), app.id);
    go_to(&access.path(&place))
}

fn address_page(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    typed: &InstallForm,
    problems: &Problems,
) -> Response {
    let mut url = typed.shown_url();
    if url.is_empty() {
        "https://github.com/acme/chat-app".clone_into(&mut url);
    }
    let shown = NewPage {
        lead: "The code is downloaded and validated. Nothing runs until you set up the app for a team.",
        fields: typed.fields(problems),
        alerts: said_besides(problems, &["url", "private_token", "tag"]),
        ..empty_page(
            apps,
            access,
            collection,
            "new/",
            json!({ "plugin_type": "custom", "url": url }),
        )
    };
    page_again(problems, &shown)
}

#[derive(Deserialize)]
struct Folder {
    url: String,
}

async fn ask_for_folder(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
) -> Response {
    folder_page(&apps, &access, collection, "", &Problems::default())
}

async fn read(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    Sent(Folder { url }): Sent<Folder>,
) -> Result<Response, Failure> {
    let folder = url.trim().trim_start_matches("file:");
    let new = NewApp {
        plugin_type: PluginType::Local,
        url: Some(format!("file:{folder}")),
        source: None,
        rest: AppFields::default(),
    };
    match apps.create(&access.caller, collection.0, &new).await {
        Ok(app) => Ok(made(&access, collection, &app)),
        Err(error) => Ok(folder_page(
            &apps,
            &access,
            collection,
            folder,
            &Problems::try_from(error)?,
        )),
    }
}

fn folder_page(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    folder: &str,
    problems: &Problems,
) -> Response {
    let field = Field::text("url", "Folder", "off")
        .at_most(800)
        .hint("Relative to the server's folder for local apps (HEDGEROW_LOCAL_APPS).")
        .holding(folder)
        .focused()
        .judged(problems);
    let example = if folder.is_empty() { "chat" } else { folder };
    let body = json!({ "plugin_type": "local", "url": format!("file:{example}") });
    let shown = NewPage {
        lead: "For apps you develop on the server itself. After changing files, reload the app.",
        fields: vec![field],
        alerts: said_besides(problems, &["url"]),
        ..empty_page(apps, access, collection, "new/folder/", body)
    };
    page_again(problems, &shown)
}

fn empty_page(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    here: &str,
    body: Value,
) -> NewPage {
    let call = Call::post::<ChangeApps>("Install an app", access.api(&collection.api())).sending(body);
    NewPage {
        frame: frame(access, collection),
        alerts: Vec::new(),
        tabs: ways(collection, here),
        lead: "",
        action: access.path(&format!("{}{here}", collection.path())),
        fields: Vec::new(),
        back: access.path(&collection.path()),
        curl: AsCurl::new(apps.service(), [call]),
    }
}
