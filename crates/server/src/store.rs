//! The store of events and persons, as the settings say.

use anyhow::{Context, ensure};
use events::Events;
use events::clickhouse::ClickHouse;
use events::sqlite::Embedded;
use outbound::{Dialer, Http, Policy};

use crate::outside;
use crate::settings::Settings;

const FILE: &str = "events.sqlite";

/// Opens the store, or makes it. The data folder must be there.
pub(crate) async fn open(settings: &Settings) -> anyhow::Result<Events> {
    let Some(url) = &settings.data.events_url else {
        if settings.database_url().starts_with("postgres") {
            tracing::warn!(
                "events are kept in a file of this machine: replicas on other machines need HEDGEROW_EVENTS_URL, \
                 or each exports only what it took in itself"
            );
        }
        let file = settings.data_dir.join(FILE);
        let store = Embedded::open(&file).with_context(|| format!("cannot open {}", file.display()))?;
        return Ok(Events::Embedded(store));
    };
    ensure!(
        url.starts_with("clickhouse://") || url.starts_with("clickhouses://"),
        "HEDGEROW_EVENTS_URL must look like clickhouse://user:password@host:8123/database"
    );
    // The operator chose this server; it may well be at a private address.
    let http = Http::new(Dialer::new(Policy::for_the_operator()), &outside::roots(settings)?)?;
    let store = ClickHouse::open(url, http).await;
    Ok(Events::ClickHouse(store.context("cannot use HEDGEROW_EVENTS_URL")?))
}

/// Lets the store finish what was begun.
pub(crate) async fn close(events: &Events) -> events::Result<()> {
    match events {
        Events::Embedded(store) => store.close().await,
        Events::ClickHouse(_) => Ok(()),
    }
}
