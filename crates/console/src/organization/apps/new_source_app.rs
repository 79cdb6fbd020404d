//! A new app that is written right here.

use apps::Apps;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::ChangeApps;
use service::pipeline::{App, AppFields, AppName, Collection, Files, NewApp, PluginType};
use service::{Error, Invalid};

use super::collection::{CollectionPages, Tab};
use super::editor::{self, Editor, Fault};
use super::frame::frame;
use super::install_from_url::{made, ways};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::page_again;
use crate::state::Console;
use crate::visitor::Sent;

const MANIFEST: &str = "plugin.json";

const DESTINATION: &str = r"export async function onEvent(event, { config }) {
    console.info(`received ${event.event} from ${event.distinct_id}`)
}
";
const SITE: &str = r"export function inject({ config }) {
    console.info('app loaded on this page')
}
";
const IMPORT: &str = r"export async function runEveryHour({ config }) {
    posthog.capture('hello', { distinct_id: 'the app' })
}
";
const FIELDS: &str = r#"{
  "config": [
    { "key": "url", "name": "Webhook URL", "type": "string", "hint": "Where to send events" }
  ]
}
"#;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/new/code/",
        get(ask).post(create),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/new_source_app.html")]
struct NewSourceAppPage {
    frame: Frame,
    alerts: Vec<String>,
    tabs: Vec<Tab>,
    action: String,
    name: Field,
    code: Editor,
    manifest: Editor,
    back: String,
    curl: AsCurl,
}

#[derive(Deserialize)]
struct NewAppForm {
    name: String,
    code: String,
    #[serde(default)]
    manifest: String,
}

impl NewAppForm {
    fn new_app(&self, collection: CollectionPages) -> Result<NewApp, Error> {
        let mut files = Files::from([(first_file(collection).to_owned(), editor::typed(&self.code)?)]);
        if !self.manifest.trim().is_empty() {
            files.insert(MANIFEST.to_owned(), editor::typed(&self.manifest)?);
        }
        Ok(NewApp {
            plugin_type: PluginType::Inline,
            url: None,
            source: Some(files),
            rest: AppFields {
                name: name(&self.name)?.map(Some),
                ..AppFields::default()
            },
        })
    }
}

/// None: the code says it, or nobody does.
pub(super) fn name(text: &str) -> Result<Option<AppName>, Error> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let name = AppName::new(text).map_err(|invalid| {
        Error::Invalid(vec![Invalid {
            field: Some("name".into()),
            ..invalid
        }])
    });
    name.map(Some)
}

/// What is read first.
const fn first_file(collection: CollectionPages) -> &'static str {
    match collection.0 {
        Collection::FrontendApps => "site.ts",
        Collection::Destinations | Collection::ImportApps => "index.ts",
    }
}

const fn example(collection: CollectionPages) -> &'static str {
    match collection.0 {
        Collection::Destinations => DESTINATION,
        Collection::FrontendApps => SITE,
        Collection::ImportApps => IMPORT,
    }
}

async fn ask(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
) -> Response {
    let typed = NewAppForm {
        name: String::new(),
        code: example(collection).to_owned(),
        manifest: FIELDS.to_owned(),
    };
    form(&apps, &access, collection, &typed, &Problems::default())
}

async fn create(
    State(apps): State<Apps>,
    access: OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    Sent(typed): Sent<NewAppForm>,
) -> Result<Response, Failure> {
    match make(&apps, &access, collection, &typed).await {
        Ok(app) => Ok(made(&access, collection, &app)),
        Err(error) => Ok(form(&apps, &access, collection, &typed, &Problems::try_from(error)?)),
    }
}

async fn make(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    typed: &NewAppForm,
) -> service::Result<App> {
    apps.create(&access.caller, collection.0, &typed.new_app(collection)?)
        .await
}

fn form(
    apps: &Apps,
    access: &OrganizationAccess<ChangeApps>,
    collection: CollectionPages,
    typed: &NewAppForm,
    problems: &Problems,
) -> Response {
    let first = first_file(collection);
    let (of_manifest, others): (Vec<Fault>, Vec<Fault>) = Fault::all(problems)
        .into_iter()
        .partition(|fault| fault.file.as_deref() == Some(MANIFEST));
    let name = Field::text("name", "Name", "off")
        .at_most(200)
        .holding(typed.name.clone());
    let body = json!({ "plugin_type": "inline", "name": "Notify chat", "source": { first: example(collection) } });
    let call = Call::post::<ChangeApps>("Create an app", access.api(&collection.api())).sending(body);
    let shown = NewSourceAppPage {
        frame: frame(access, collection),
        alerts: editor::besides(problems, &["name"]),
        tabs: ways(collection, "new/code/"),
        action: access.path(&format!("{}new/code/", collection.path())),
        name: name
            .optional()
            .hint("Defaults to the name in plugin.json.")
            .judged(problems),
        code: Editor::new("code", first, typed.code.clone(), others),
        manifest: Editor::new("manifest", MANIFEST, typed.manifest.clone(), of_manifest),
        back: access.path(&collection.path()),
        curl: AsCurl::new(apps.service(), [call]),
    };
    page_again(problems, &shown)
}
