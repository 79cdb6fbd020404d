//! Settings: by flag, else by environment, else by file. One that is unknown is refused by name.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::RateLimit;
use clap::builder::Resettable;
use clap::{Args, CommandFactory, FromArgMatches};
use url::Url;

const PREFIX: &str = "HEDGEROW_";
const DEFAULT_FILE: &str = "hedgerow.toml";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// A TOML file with settings, each named like its flag with `_` for `-`.
    #[arg(long, global = true, env = "HEDGEROW_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The address to listen at.
    #[arg(long, global = true, env = "HEDGEROW_LISTEN", default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,

    /// The folder for what is kept on this machine; made if it is not there.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATA_DIR",
        default_value = "./hedgerow-data",
        value_name = "FOLDER"
    )]
    pub(crate) data_dir: PathBuf,

    /// The database: `postgres://user:password@host/name` or `sqlite:FILE`; an SQLite file in the data folder
    /// unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,

    /// How many connections to PostgreSQL this process may have open.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DATABASE_CONNECTIONS",
        default_value = "10",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        value_name = "NUMBER"
    )]
    pub(crate) database_connections: u32,

    /// Where people and programs find this server, such as `https://hedgerow.example.com`; links begin with it.
    /// Without it they begin with the host of the request.
    #[arg(long, global = true, env = "HEDGEROW_SITE_URL", value_name = "URL")]
    pub(crate) site_url: Option<Url>,

    /// What secrets in the database are sealed with: at least 32 characters. Made and kept in the data folder unless
    /// given; several replicas need the same. To replace it, give the new one and the old one, with a comma between.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SECRET_KEY",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "KEY"
    )]
    pub(crate) secret_key: Vec<String>,

    /// The mail server, such as `smtps://user:password@mail.example.com` or `smtp://mail.example.com:587`; no mail is
    /// sent unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SMTP_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) smtp_url: Option<String>,

    /// Whom mail is from.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_MAIL_FROM",
        default_value = "Hedgerow <hedgerow@localhost>",
        value_name = "ADDRESS"
    )]
    pub(crate) mail_from: String,

    /// The name servers to ask about domains, such as 9.9.9.9 or 127.0.0.1:5353, separated by commas; the system's
    /// unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_DNS",
        value_delimiter = ',',
        value_parser = name_server,
        value_name = "ADDRESSES"
    )]
    pub(crate) dns: Vec<SocketAddr>,

    /// For how many days an invite is good.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_INVITE_DAYS",
        default_value_t = service::Instance::INVITE_DAYS,
        value_parser = clap::value_parser!(i64).range(1..=365),
        value_name = "DAYS"
    )]
    pub(crate) invite_days: i64,

    /// Private networks that users may have this server connect to, such as 10.1.0.0/16, separated by commas; none
    /// unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_ALLOW_PRIVATE_NETWORKS",
        value_delimiter = ',',
        value_name = "NETWORKS"
    )]
    pub(crate) allow_private_networks: Vec<ipnet::IpNet>,

    /// A PEM file with certificate authorities to trust beside the public ones.
    #[arg(long, global = true, env = "HEDGEROW_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) providers: ProviderSettings,

    /// The networks of your proxies, such as 10.0.0.0/8, separated by commas. Only their forwarded headers are
    /// believed.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_TRUSTED_PROXIES",
        value_delimiter = ',',
        value_name = "NETWORKS"
    )]
    pub(crate) trusted_proxies: Vec<ipnet::IpNet>,

    /// The origins whose pages may call the API from a browser, separated by commas; none unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_CORS_ORIGINS",
        value_delimiter = ',',
        value_parser = origin,
        value_name = "ORIGINS"
    )]
    pub(crate) cors_origins: Vec<String>,

    /// How often one key may ask, such as 480/minute or 10/second; as often as it likes unless given.
    #[arg(long, global = true, env = "HEDGEROW_RATE_LIMIT", value_name = "RATE")]
    pub(crate) rate_limit: Option<RateLimit>,

    /// How many seconds to go on serving after being told to stop, with readiness already false.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SHUTDOWN_DELAY",
        default_value = "1",
        value_name = "SECONDS"
    )]
    pub(crate) shutdown_delay: u64,

    /// What to log: error, warn, info, debug or trace, also by module (info,sqlx=warn).
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub(crate) log: String,

    /// Where to send traces, such as `http://127.0.0.1:4318`; nowhere unless given.
    #[arg(long, global = true, env = "HEDGEROW_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<Url>,

    /// The e-mail address of the first owner, made on an empty database.
    #[arg(long, global = true, env = "HEDGEROW_BOOTSTRAP_EMAIL", value_name = "ADDRESS")]
    pub(crate) bootstrap_email: Option<String>,

    /// The password of the first owner; made up unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_BOOTSTRAP_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    pub(crate) bootstrap_password: Option<String>,

    /// The key of the first owner, 16 or more printable characters; made up unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_BOOTSTRAP_API_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub(crate) bootstrap_api_key: Option<String>,
}

/// Whom anybody may sign in with, once this server is registered there. Each needs an id and a secret.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProviderSettings {
    /// What Google knows this server by, so that people may sign in with Google; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_CLIENT_ID", value_name = "ID")]
    pub(crate) google_client_id: Option<String>,
    /// The secret that Google gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GOOGLE_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) google_client_secret: Option<String>,
    /// Where Google is, if not at accounts.google.com.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_URL", value_name = "URL")]
    pub(crate) google_url: Option<Url>,
    /// What GitHub knows this server by, so that people may sign in with GitHub; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_CLIENT_ID", value_name = "ID")]
    pub(crate) github_client_id: Option<String>,
    /// The secret that GitHub gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITHUB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) github_client_secret: Option<String>,
    /// Where your own GitHub Enterprise Server is.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_URL", value_name = "URL")]
    pub(crate) github_url: Option<Url>,
    /// What GitLab knows this server by, so that people may sign in with GitLab; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_CLIENT_ID", value_name = "ID")]
    pub(crate) gitlab_client_id: Option<String>,
    /// The secret that GitLab gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITLAB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) gitlab_client_secret: Option<String>,
    /// Where your own GitLab is.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_URL", value_name = "URL")]
    pub(crate) gitlab_url: Option<Url>,
}

/// The address of a name server; the port is 53 unless given.
fn name_server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let bare = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    with_port
        .or(bare)
        .map_err(|_| "use the address of a name server, such as 9.9.9.9 or 127.0.0.1:5353".to_owned())
}

/// An origin as browsers send it: scheme and host, no path.
fn origin(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        Ok(url) if url.origin().ascii_serialization() == text => Ok(text.to_owned()),
        _ => Err("an origin looks like https://app.example.com".to_owned()),
    }
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
}

/// Reads the command line, with the environment and the file behind it.
pub(crate) fn read<A: CommandFactory + FromArgMatches>() -> anyhow::Result<A> {
    let command = A::command();
    refuse_unknown_variables(&command)?;
    let command = without_empty_variables(command);
    let command = match file(&command)? {
        Some(file) => with_file(command, &file)?,
        None => command,
    };
    let mut matches = command.get_matches();
    A::from_arg_matches_mut(&mut matches).map_err(|error| error.exit())
}

fn refuse_unknown_variables(command: &clap::Command) -> anyhow::Result<()> {
    let known = variables(command);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with(PREFIX) && !is_of_kubernetes(&text) && !known.contains(&name) {
            bail!(
                "{} is no setting: see hedgerow --help for those there are",
                name.display()
            );
        }
    }
    Ok(())
}

/// Kubernetes tells every container about a service named `hedgerow`.
fn is_of_kubernetes(name: &str) -> bool {
    name == "HEDGEROW_PORT" || name.starts_with("HEDGEROW_PORT_") || name.starts_with("HEDGEROW_SERVICE_")
}

/// The variables that a command and those below it read.
fn variables(command: &clap::Command) -> Vec<OsString> {
    let own = command
        .get_arguments()
        .filter_map(clap::Arg::get_env)
        .map(OsStr::to_owned);
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// A variable that is set to nothing is not set.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command.mut_args(|argument| match argument.get_env() {
        Some(name) if is_empty(name) => argument.env(Resettable::Reset),
        _ => argument,
    })
}

/// The file that is named, else the usual one if it is there.
fn file(command: &clap::Command) -> anyhow::Result<Option<PathBuf>> {
    // A first, lenient look at the command line: all that is wanted of it is the name of the file.
    let lenient = command
        .clone()
        .ignore_errors(true)
        .disable_help_flag(true)
        .disable_version_flag(true);
    let named = lenient
        .try_get_matches()
        .ok()
        .and_then(|matches| matches.get_one::<PathBuf>("config").cloned());
    match named {
        Some(file) => Ok(Some(file)),
        None if Path::new(DEFAULT_FILE).try_exists()? => Ok(Some(DEFAULT_FILE.into())),
        None => Ok(None),
    }
}

/// What the file says becomes the default, so that flags and variables still win.
fn with_file(mut command: clap::Command, file: &Path) -> anyhow::Result<clap::Command> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let table: toml::Table = text
        .parse()
        .with_context(|| format!("{} is not valid TOML", file.display()))?;
    for (name, value) in table {
        let is_setting = |argument: &clap::Arg| argument.get_id() == name.as_str() && argument.get_env().is_some();
        if name == "config" || !command.get_arguments().any(is_setting) {
            bail!(
                "{name} in {} is no setting: see hedgerow --help for those there are",
                file.display()
            );
        }
        let value = plain(&value).with_context(|| format!("{name} in {} has no simple value", file.display()))?;
        command = command.mut_arg(name, |argument| {
            let is_secret = argument.is_hide_env_values_set();
            argument.default_value(value).hide_default_value(is_secret)
        });
    }
    Ok(command)
}

/// The value as it would stand on the command line.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(items) => items
            .iter()
            .map(plain)
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
