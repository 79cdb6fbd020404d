//! What an app said while it ran for a team, and what the server had to say of it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::ReadApps;
use service::pipeline::{AppLog, AppLogFilter, AppLogLevel, AppLogSource};
use service::{Service, Time};

use super::collection::AtConfig;
use super::frame::frame_below;
use super::teams::{name_of, teams};
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::page;
use crate::paging::{PageNumber, Pages, with_query};
use crate::show;
use crate::state::Console;
use crate::visitor::InQuery;

/// As much as the API takes, too.
const MAX_SEARCH: usize = 200;

const LEVELS: [(&str, &str); 6] = [
    ("", "All"),
    ("ERROR", "Errors"),
    ("WARN", "Warnings"),
    ("INFO", "Info"),
    ("LOG", "Log"),
    ("DEBUG", "Debug"),
];

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/configurations/{config}/logs/",
        get(list),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/logs.html")]
struct LogsPage {
    frame: Frame,
    title: String,
    here: String,
    level: Select,
    search: Field,
    is_filtered: bool,
    error: Option<String>,
    is_on: bool,
    entries: Vec<Row>,
    pages: Pages,
    curl: AsCurl,
}

struct Row {
    time: String,
    exactly: String,
    level: &'static str,
    class: &'static str,
    source: &'static str,
    message: String,
}

impl Row {
    fn new(entry: &AppLog, now: Time) -> Self {
        Self {
            time: show::ago(entry.created_at, now),
            exactly: show::exactly(entry.created_at),
            level: entry.level.as_str(),
            class: match entry.level {
                AppLogLevel::Error => "tag-danger",
                AppLogLevel::Warn => "tag-warning",
                AppLogLevel::Debug | AppLogLevel::Log | AppLogLevel::Info => "",
            },
            source: match entry.source {
                AppLogSource::System => "System",
                AppLogSource::Console => "App",
            },
            message: entry.message.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct LogsQuery {
    #[serde(default)]
    level: String,
    #[serde(default)]
    search: String,
    #[serde(default)]
    page: String,
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadApps>,
    at: AtConfig,
    InQuery(asked): InQuery<LogsQuery>,
) -> Result<Response, Failure> {
    let (caller, collection, id) = (&access.caller, at.at.collection(), at.at.app);
    let app = service.app(caller, collection, id).await?;
    let config = service.app_config(caller, collection, id, at.config).await?;
    let place = PageNumber::read(&asked.page);
    let search: String = asked.search.trim().chars().take(MAX_SEARCH).collect();
    let filter = AppLogFilter {
        level: asked.level.parse().ok(),
        search: (!search.is_empty()).then(|| search.clone()),
        ..AppLogFilter::default()
    };
    let entries = service
        .app_logs(caller, collection, id, at.config, &filter, place.window())
        .await?;
    let level = filter.level.map_or("", AppLogLevel::as_str);
    let filters = [("level", level), ("search", search.as_str())];
    let here = access.path(&format!("{}logs/", at.path()));
    let path = with_query(&access.api(&format!("{}logs/", at.api())), filters);
    let team = name_of(config.team_id, &teams(&service, &access).await?);
    let title = format!("{} for {team}", app.name);
    let now = service.clock().now();
    Ok(page(&LogsPage {
        frame: frame_below(&access, at.at, app.name.to_string()).through(&at.path(), title.as_str()),
        title,
        level: Select::new("level", "Level", LEVELS, level),
        search: Field::text("search", "Search", "off")
            .at_most(200)
            .of_filter()
            .holding(search.as_str()),
        is_filtered: !level.is_empty() || !search.is_empty(),
        error: config.latest_error.clone(),
        is_on: config.enabled,
        entries: entries.items.iter().map(|entry| Row::new(entry, now)).collect(),
        pages: Pages::new(&here, &filters, place, entries.count),
        curl: AsCurl::new(&service, [Call::get::<ReadApps>("List the logs", path)]),
        here,
    }))
}
