//! Where settings come from: the command line, with the environment and the file behind it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches};

const PREFIX: &str = "HEDGEROW_";
const DEFAULT_FILE: &str = "hedgerow.toml";
/// For clients, not for the server: the console's examples of requests set it in the shell of whoever tries them.
const API_KEY: &str = "HEDGEROW_API_KEY";

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
        let is_foreign = is_of_kubernetes(&text) || text == API_KEY;
        if text.starts_with(PREFIX) && !is_foreign && !known.contains(&name) {
            bail!(
                "unknown setting {}: see hedgerow --help for all settings",
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
                "unknown setting {name} in {}: see hedgerow --help for all settings",
                file.display()
            );
        }
        let value = plain(&value)
            .with_context(|| format!("{name} in {} must be a string, number or boolean", file.display()))?;
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
