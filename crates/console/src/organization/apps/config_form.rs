//! A team's use of an app: looked at, changed, enabled and off.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use service::access::{ChangeApps, Permission, ReadApps};
use service::pipeline::schema::{self, Field as PageQuery};
use service::pipeline::{App, AppConfig, Collection, ConfigPatch, ReachedHost};
use service::{AppConfigId, Error, Service, Window};

use super::collection::{AtApp, AtConfig};
use super::config_fields::{ConfigForm, FieldView, name, open_values};
use super::frame::frame_below;
use super::teams::{name_of, teams};
use crate::choices::{Area, Select, Switch};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{PageQuery as InAddress, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/configurations/{config}/",
        get(show_config).post(save),
    )
}

#[derive(Template)]
#[template(path = "organization/apps/config.html")]
pub(super) struct ConfigPage {
    pub(super) frame: Frame,
    pub(super) alerts: Vec<String>,
    pub(super) title: String,
    pub(super) action: String,
    pub(super) back: String,
    /// None: it is not there yet.
    pub(super) facts: Option<Facts>,
    pub(super) form: Form,
    pub(super) curl: AsCurl,
}

pub(super) struct Form {
    /// Chosen once, and never changed.
    pub(super) team: Option<Select>,
    /// The version of the app that is looked at, while there is no configuration yet.
    pub(super) version: Option<i64>,
    pub(super) enabled: Switch,
    pub(super) order: Field,
    pub(super) fields: Vec<FieldView>,
    pub(super) hosts: Area,
}

pub(super) struct Facts {
    id: AppConfigId,
    app: String,
    scope: &'static str,
    team: String,
    is_on: bool,
    error: Option<String>,
    /// For apps that get events.
    delivered: Option<(String, String)>,
    /// What pages load.
    script: Option<String>,
    /// The hosts that the app declares; none: it does not say.
    declared: Option<String>,
    reached: Vec<Reached>,
    version: i64,
    /// What there is besides the version that was approved.
    newer: Option<String>,
    made: String,
}

/// A host that the app asked for.
struct Reached {
    host: String,
    is_allowed: bool,
    exactly: String,
    ago: String,
}

impl Facts {
    fn new(service: &Service, at: AtApp, app: &App, config: &AppConfig, team: String, reached: &[ReachedHost]) -> Self {
        let now = service.clock().now();
        let delivered = config.delivered_until;
        let is_for_sites = at.collection() == Collection::FrontendApps;
        let site = service.instance().site_url.trim_end_matches('/');
        let reached = reached.iter().map(|one| Reached {
            host: one.host.clone(),
            is_allowed: one.is_allowed,
            exactly: show::exactly(one.last_at),
            ago: show::ago(one.last_at, now),
        });
        Self {
            id: config.id,
            app: app.id.to_string(),
            scope: at.collection().scope(),
            team,
            is_on: config.enabled,
            error: config.latest_error.clone(),
            delivered: app
                .takes_events()
                .then(|| (show::exactly(delivered), show::ago(delivered, now))),
            script: is_for_sites
                .then(|| format!("{site}/site_app/{}/{}/{}/", config.id, config.web_token, app.version)),
            declared: declared(app),
            reached: reached.collect(),
            version: config.version,
            newer: (config.version != config.latest_version).then(|| {
                let (version, latest) = (config.version, config.latest_version);
                format!("This configuration runs version {version} until you update to version {latest}.")
            }),
            made: show::day(config.created_at),
        }
    }
}

/// The hosts that an app says it reaches, where it is held to them.
fn declared(app: &App) -> Option<String> {
    match app.hosts.as_deref() {
        None if app.is_global => Some("None".to_owned()),
        None => None,
        Some([]) => Some("None".to_owned()),
        Some(hosts) => Some(hosts.join(", ")),
    }
}

/// One host per line; none: the list was left empty.
fn listed_hosts(text: &str) -> Option<Vec<String>> {
    let words = text.split([',', '\n']).map(str::trim).filter(|word| !word.is_empty());
    let hosts: Vec<String> = words.map(str::to_owned).collect();
    (!hosts.is_empty()).then_some(hosts)
}

/// What a form changes.
pub(super) fn patch(
    typed: &ConfigForm,
    fields: &[PageQuery],
    before: &Map<String, Value>,
    hosts: Option<&[String]>,
) -> Result<ConfigPatch, Error> {
    let order = match typed.get("order").trim() {
        "" => Ok(0),
        text => text.parse(),
    };
    let order = order.map_err(|_| Error::invalid("order", "invalid_input", "this must be a whole number"))?;
    let values = typed.values(fields, before);
    let listed = listed_hosts(typed.get("allowed_hosts"));
    Ok(ConfigPatch {
        enabled: Some(typed.get("enabled") == "yes"),
        order: Some(order),
        config: (!values.is_empty()).then_some(values),
        // A list that allows nothing looks like none at all in a form; left empty, it stays what it is.
        allowed_hosts: (listed.is_some() || hosts != Some(&[])).then_some(listed),
    })
}

async fn show_config(
    State(service): State<Service>,
    access: OrganizationAccess<ReadApps>,
    at: AtConfig,
    asked: InAddress,
) -> Result<Response, Failure> {
    config_page(&service, &access, at, None, &asked.done, &Problems::default()).await
}

async fn save(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtConfig,
    Sent(pairs): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let typed = ConfigForm::sent(pairs);
    match change(&service, &access, at, &typed).await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=saved", at.path())))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            config_page(&service, &access, at, Some(&typed), "", &problems).await
        }
    }
}

async fn change(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtConfig,
    typed: &ConfigForm,
) -> service::Result<AppConfig> {
    let (caller, collection, app) = (&access.caller, at.at.collection(), at.at.app);
    let patch = {
        // Both may be large, and are not kept while the change waits for others.
        let (approved, before) = service.approved_app(caller, collection, app, at.config).await?;
        let fields = schema::fields(&approved.config_schema);
        patch(typed, &fields, &before.config, before.allowed_hosts.as_deref())?
    };
    service
        .update_app_config(caller, collection, app, at.config, &patch, &service::no_precondition)
        .await
}

async fn config_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    at: AtConfig,
    typed: Option<&ConfigForm>,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let (collection, id) = (at.at.collection(), at.at.app);
    let (app, config) = service.approved_app(&access.caller, collection, id, at.config).await?;
    let fields = schema::fields(&app.config_schema);
    let team = name_of(config.team_id, &teams(service, access).await?);
    let mut kept = service.kept_secrets(&config)?;
    kept.extend(config.config.keys().cloned());
    let present = || {
        let switch = if config.enabled { "yes" } else { "" };
        let typed = ConfigForm::default()
            .with("enabled", switch)
            .with("order", config.order.to_string())
            .with(
                "allowed_hosts",
                config.allowed_hosts.as_deref().unwrap_or_default().join("\n"),
            );
        typed.holding(&fields, &config.config)
    };
    let typed = typed.cloned().unwrap_or_else(present);
    let body =
        json!({ "enabled": config.enabled, "order": config.order, "config": open_values(&fields, &config.config) });
    let reached = service
        .reached_hosts(
            &access.caller,
            collection,
            id,
            at.config,
            Window { limit: 50, offset: 0 },
        )
        .await?;
    let api = access.api(&at.api());
    let read = Call::get::<ReadApps>("Read the configuration", &api);
    let write = Call::patch::<ChangeApps>("Edit the configuration", &api).sending(body);
    let shown = ConfigPage {
        frame: frame_below(access, at.at, app.name.to_string()).noting(done),
        alerts: besides(problems, &fields),
        title: format!("{} for {team}", app.name),
        action: access.path(&at.path()),
        back: access.path(&at.at.path()),
        form: form(&typed, &fields, &kept, problems),
        facts: Some(Facts::new(service, at.at, &app, &config, team, &reached.items)),
        curl: AsCurl::new(service, [read, write]),
    };
    Ok(page_again(problems, &shown))
}

pub(super) fn form(typed: &ConfigForm, fields: &[PageQuery], kept: &[String], problems: &Problems) -> Form {
    let order = Field::text("order", "Order", "off").at_most(12).keyboard("numeric");
    Form {
        team: None,
        version: None,
        enabled: Switch::new(
            "enabled",
            "Enabled",
            "While enabled, the app runs for this team. It receives only events that arrive from then on.",
            typed.get("enabled") == "yes",
        ),
        order: order
            .of_filter()
            .hint("Position among the team's apps. Lower numbers come first.")
            .holding(typed.get("order"))
            .judged(problems),
        fields: FieldView::all(fields, typed, kept, problems),
        hosts: Area::new("allowed_hosts", "Allowed hosts", 3, typed.get("allowed_hosts"))
            .optional()
            .code()
            .hint("The hosts that the app can reach, one per line: api.example.com, *.example.com, or config.KEY for the host in that setting. Leave empty for no limit.")
            .judged(problems),
    }
}

/// What is wrong with none of the fields.
pub(super) fn besides(problems: &Problems, fields: &[PageQuery]) -> Vec<String> {
    let mut names: Vec<String> = fields.iter().map(name).collect();
    names.extend(["team_id", "order", "allowed_hosts"].map(str::to_owned));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    problems.besides(&names)
}
