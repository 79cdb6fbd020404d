//! The store of events and persons, as the settings say.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use events::Events;
use events::clickhouse::ClickHouse;
use events::sqlite::Embedded;
use outbound::{Dialer, Http, Policy};
use service::Service;

use crate::deps;
use crate::settings::Settings;

const FILE: &str = "events.sqlite";

pub(crate) fn file(settings: &Settings) -> PathBuf {
    settings.data_dir.join(FILE)
}

/// Opens the store that belongs to the database, or makes it. The data folder must be there.
pub(crate) async fn open(settings: &Settings, service: &Service) -> anyhow::Result<Events> {
    let events = connect(settings).await?;
    let instance = service.instance_uuid().await?;
    ensure!(
        events.claim(instance).await? == instance,
        "these events belong to a different database: restore that one, or move {} away",
        settings.data.events_url.as_ref().map_or_else(
            || file(settings).display().to_string(),
            |_| "the tables in ClickHouse".to_owned()
        )
    );
    if service.skip_team_numbers(events.highest_team().await?).await? {
        tracing::warn!("the database is older than the event store; events of unknown teams stay hidden");
    }
    Ok(events)
}

async fn connect(settings: &Settings) -> anyhow::Result<Events> {
    if settings.data.events_url.is_none() {
        if settings.database_url().starts_with("postgres") {
            tracing::warn!(
                "events are stored in a local file: replicas on other machines need HEDGEROW_EVENTS_URL, or each \
                 exports only its own events"
            );
        }
        let file = file(settings);
        let store = Embedded::open(&file).with_context(|| format!("cannot open {}", file.display()))?;
        return Ok(Events::Embedded(store));
    }
    Ok(Events::ClickHouse(clickhouse(settings).await?))
}

pub(crate) async fn clickhouse(settings: &Settings) -> anyhow::Result<ClickHouse> {
    let url = settings.data.events_url.as_deref().unwrap_or_default();
    ensure!(
        url.starts_with("clickhouse://") || url.starts_with("clickhouses://"),
        "HEDGEROW_EVENTS_URL must look like clickhouse://user:password@host:8123/database"
    );
    // The operator chose this server; it may well be at a private address.
    let http = Http::new(Dialer::new(Policy::for_the_operator()), &deps::roots(settings)?)?;
    ClickHouse::open(url, http)
        .await
        .context("HEDGEROW_EVENTS_URL is invalid")
}

/// Lets the store finish what was begun.
pub(crate) async fn close(events: &Events) -> events::Result<()> {
    match events {
        Events::Embedded(store) => store.close().await,
        Events::ClickHouse(_) => Ok(()),
    }
}

/// Looks for damage, for as long as a start may take. ClickHouse looks after itself.
pub(crate) async fn check(events: &Events) -> events::Result<()> {
    match events {
        Events::Embedded(store) => store.check().await,
        Events::ClickHouse(_) => Ok(()),
    }
}
