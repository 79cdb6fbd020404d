//! Settings: by flag, else by environment, else by file. One that is unknown is refused by name.

mod apps;
mod data;
mod providers;
mod read;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use api::RateLimit;
use clap::Args;
use url::Url;

pub(crate) use apps::AppSettings;
pub(crate) use data::DataSettings;
pub(crate) use providers::ProviderSettings;
pub(crate) use read::read;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// A TOML file with settings, each named like its flag with `_` instead of `-`.
    #[arg(long, global = true, env = "HEDGEROW_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The address and port to listen on.
    #[arg(long, global = true, env = "HEDGEROW_LISTEN", default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,

    /// A separate address for `/healthz`, `/readyz` and `/metrics`, such as 127.0.0.1:8001. If set, `/metrics` is
    /// served only there.
    #[arg(long, global = true, env = "HEDGEROW_HEALTH_LISTEN", value_name = "ADDRESS")]
    pub(crate) health_listen: Option<SocketAddr>,

    /// The maximum number of open connections per IP address, or per /56 network of IPv6. Those of trusted proxies are
    /// not counted.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_CONNECTIONS_PER_ADDRESS",
        default_value = "500",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000),
        value_name = "NUMBER"
    )]
    pub(crate) connections_per_address: usize,

    /// The folder for local data. Created if it does not exist.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATA_DIR",
        default_value = "./hedgerow-data",
        value_name = "FOLDER"
    )]
    pub(crate) data_dir: PathBuf,

    /// The database: `postgres://user:password@host/name` or `sqlite:FILE`. Defaults to an SQLite file in the data
    /// folder.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,

    /// The maximum number of PostgreSQL connections of this process.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATABASE_CONNECTIONS",
        default_value = "16",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        value_name = "NUMBER"
    )]
    pub(crate) database_connections: u32,

    #[command(flatten)]
    pub(crate) data: DataSettings,

    #[command(flatten)]
    pub(crate) apps: AppSettings,

    /// The public URL of this server, such as `https://hedgerow.example.com`, used in links. Defaults to the host of
    /// the request.
    #[arg(long, global = true, env = "HEDGEROW_SITE_URL", value_name = "URL")]
    pub(crate) site_url: Option<Url>,

    /// A separate URL for the scripts of frontend apps, such as `https://apps.example.net`: a different host than the
    /// console's that also points to this server. If set, scripts are served only there, and the console and API are
    /// not.
    #[arg(long, global = true, env = "HEDGEROW_APPS_URL", value_name = "URL", value_parser = values::web_url)]
    pub(crate) apps_url: Option<Url>,

    /// The key that encrypts secrets in the database: at least 32 characters, the same on all replicas. Defaults to a
    /// generated key in the data folder. To rotate it, set the new and the old key, separated by a comma.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SECRET_KEY",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "KEY"
    )]
    pub(crate) secret_key: Vec<String>,

    /// The mail server, such as `smtps://user:password@mail.example.com` or `smtp://mail.example.com:587`. Email is
    /// disabled by default.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SMTP_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) smtp_url: Option<String>,

    /// The sender of emails.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_MAIL_FROM",
        default_value = "Hedgerow <hedgerow@localhost>",
        value_name = "ADDRESS"
    )]
    pub(crate) mail_from: String,

    /// The DNS servers for verifying domains, such as 9.9.9.9 or 127.0.0.1:5353, separated by commas. Defaults to the
    /// system's.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DNS",
        value_delimiter = ',',
        value_parser = values::name_server,
        value_name = "ADDRESSES"
    )]
    pub(crate) dns: Vec<SocketAddr>,

    /// The number of days until an invite expires.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_INVITE_DAYS",
        default_value_t = service::Instance::INVITE_DAYS,
        value_parser = clap::value_parser!(i64).range(1..=365),
        value_name = "DAYS"
    )]
    pub(crate) invite_days: i64,

    /// Private networks that users can make this server connect to, such as 10.1.0.0/16, separated by commas. None by
    /// default.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_ALLOW_PRIVATE_NETWORKS",
        value_delimiter = ',',
        value_name = "NETWORKS"
    )]
    pub(crate) allow_private_networks: Vec<ipnet::IpNet>,

    /// A PEM file with certificate authorities to trust in addition to the public ones.
    #[arg(long, global = true, env = "HEDGEROW_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) providers: ProviderSettings,

    /// The networks of your proxies, such as 10.0.0.0/8, separated by commas. Forwarded headers are trusted only from
    /// them.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_TRUSTED_PROXIES",
        value_delimiter = ',',
        value_name = "NETWORKS"
    )]
    pub(crate) trusted_proxies: Vec<ipnet::IpNet>,

    /// The allowed CORS origins for the API, separated by commas. None by default.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_CORS_ORIGINS",
        value_delimiter = ',',
        value_parser = values::origin,
        value_name = "ORIGINS"
    )]
    pub(crate) cors_origins: Vec<String>,

    /// The rate limit per API key or signed-in user, such as 480/minute or 10/second. Unlimited by default.
    #[arg(long, global = true, env = "HEDGEROW_RATE_LIMIT", value_name = "RATE")]
    pub(crate) rate_limit: Option<RateLimit>,

    /// The hourly limits on invites, new accounts, password resets, API keys, batch exports and teams, per user,
    /// organization and server: on, off, or a number to multiply them by.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_HOURLY_LIMITS",
        default_value_t = service::HourlyLimits::default(),
        value_name = "LIMITS"
    )]
    pub(crate) hourly_limits: service::HourlyLimits,

    /// The number of seconds to keep serving after a stop signal, with readiness already false. A second signal stops
    /// immediately.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SHUTDOWN_DELAY",
        default_value = "5",
        value_name = "SECONDS"
    )]
    pub(crate) shutdown_delay: u64,

    /// The log filter: error, warn, info, debug or trace, also by module (info,sqlx=warn).
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub(crate) log: String,

    /// The OTLP endpoint for traces, such as `http://127.0.0.1:4318`. Disabled by default.
    #[arg(long, global = true, env = "HEDGEROW_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<Url>,

    /// The email of the first owner, created on an empty database.
    #[arg(long, global = true, env = "HEDGEROW_BOOTSTRAP_EMAIL", value_name = "ADDRESS")]
    pub(crate) bootstrap_email: Option<String>,

    /// The password of the first owner. Generated by default.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_BOOTSTRAP_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    pub(crate) bootstrap_password: Option<String>,

    /// The API key of the first owner, 16 or more printable characters. Generated by default.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_BOOTSTRAP_API_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub(crate) bootstrap_api_key: Option<String>,
}

impl Settings {
    /// Where links in mail begin: as configured, else where we listen.
    pub(crate) fn site_url(&self, listening: SocketAddr) -> String {
        let text = self
            .site_url
            .as_ref()
            .map_or_else(|| format!("http://{listening}"), ToString::to_string);
        text.trim_end_matches('/').to_owned()
    }

    /// The address of the database, with the default spelled out.
    pub(crate) fn database_url(&self) -> String {
        let embedded = || format!("sqlite:{}", self.data_dir.join("hedgerow.sqlite").display());
        self.database_url.clone().unwrap_or_else(embedded)
    }

    /// The file of the database, if it is one.
    pub(crate) fn sqlite_file(&self) -> Option<PathBuf> {
        let url = self.database_url();
        let file = url.strip_prefix("sqlite:")?;
        Some(file.strip_prefix("//").unwrap_or(file).into())
    }
}
