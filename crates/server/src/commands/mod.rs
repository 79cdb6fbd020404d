//! What can be done on the command line, beside serving.

pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod manual;
pub(crate) mod operators;
pub(crate) mod organizations;
pub(crate) mod secret_key;
pub(crate) mod users;
pub(crate) mod verify;

use std::io::{Write, stdout};

use anyhow::Context;
use service::{Clock, Instance, RandomSource, Service, Store, Window};

use crate::secret_key as secret_key_file;
use crate::settings::Settings;
use crate::{data_folder, deps, modes};

/// How many rows a list shows unless told otherwise.
const ROWS: i64 = 1000;

/// The service, for a command that answers no requests.
pub(crate) async fn service(settings: &Settings) -> anyhow::Result<Service> {
    open(settings, settings.site_url(settings.listen)).await
}

/// Opens the database, brings it up to date, and hands over the service on it.
pub(crate) async fn open(settings: &Settings, site_url: String) -> anyhow::Result<Service> {
    data_folder::make(settings)?;
    modes::report(settings);
    let service = prepare(settings, site_url).await?;
    service.store().migrate().await?;
    service.check_secret_key().await?;
    service.renew_address_keys().await?;
    Ok(service)
}

/// The service on the database as it is, for a command that must not change it.
pub(crate) async fn connect(settings: &Settings) -> anyhow::Result<Service> {
    prepare(settings, settings.site_url(settings.listen)).await
}

async fn prepare(settings: &Settings, site_url: String) -> anyhow::Result<Service> {
    let url = settings.database_url();
    let store = Store::open(&url, settings.database_connections).await;
    let store = store.with_context(|| format!("cannot open the database {}", without_password(&url)))?;
    let instance = Instance {
        site_url,
        sends_mail: settings.smtp_url.is_some(),
        invite_days: settings.invite_days,
        providers: deps::providers(&settings.providers)?.set_up(),
        encryptor: secret_key_file::encryptor(settings)?,
        hourly_limits: settings.hourly_limits,
    };
    Ok(Service::new(store, Clock::steady(), RandomSource::System, instance))
}

pub(crate) async fn migrate(settings: &Settings) -> anyhow::Result<()> {
    let service = service(settings).await?;
    writeln!(stdout(), "the {} database is up to date", service.store().kind())?;
    Ok(())
}

pub(crate) fn openapi() -> anyhow::Result<()> {
    serde_json::to_writer_pretty(stdout().lock(), api::spec())?;
    writeln!(stdout())?;
    Ok(())
}

/// What may be shown of a database's address.
fn without_password(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut url) if url.password().is_some() => {
            // Fails only for addresses that have no password to begin with.
            let _ = url.set_password(Some("***"));
            url.to_string()
        }
        _ => url.to_owned(),
    }
}

fn all_rows() -> Window {
    Window::new(Some(ROWS), None)
}
