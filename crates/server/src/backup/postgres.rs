//! PostgreSQL is copied by its own programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use percent_encoding::percent_decode_str;
use url::{Url, form_urlencoded};

pub(super) fn dump(url: &str, file: &Path) -> anyhow::Result<()> {
    run(program("pg_dump", Some(url))?
        .arg("--format=custom")
        .arg("--file")
        .arg(file))
}

/// Reads all of a dump.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    run(program("pg_restore", None)?.arg("--file=/dev/null").arg(file))
}

/// All or nothing, into a database that has no tables.
pub(super) fn restore(url: &str, file: &Path) -> anyhow::Result<()> {
    let mut restore = program("pg_restore", Some(url))?;
    restore.args([
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
    ]);
    run(restore.arg(file)).context("the database must be empty")
}

/// A password on the command line would be seen by everybody on this machine.
fn program(name: &str, url: Option<&str>) -> anyhow::Result<Command> {
    let mut command = Command::new(name);
    let Some(url) = url else { return Ok(command) };
    let mut url = Url::parse(url).context("the database URL is invalid")?;
    if let Some(password) = take_password(&mut url)? {
        command.env("PGPASSWORD", password);
    }
    command.arg("--dbname").arg(url.as_str());
    Ok(command)
}

/// A password may stand before the host or among the parameters, where it wins.
fn take_password(url: &mut Url) -> anyhow::Result<Option<String>> {
    let mut password = None;
    if let Some(before_host) = url.password() {
        password = Some(percent_decode_str(before_host).decode_utf8()?.into_owned());
        ensure!(url.set_password(None).is_ok(), "the database URL is invalid");
    }
    let Some(query) = url.query().map(str::to_owned) else {
        return Ok(password);
    };
    // The others stay as they are written.
    let mut others = Vec::new();
    for part in query.split('&') {
        match form_urlencoded::parse(part.as_bytes()).next() {
            Some((name, value)) if name == "password" => password = Some(value.into_owned()),
            _ => others.push(part),
        }
    }
    url.set_query((!others.is_empty()).then(|| others.join("&")).as_deref());
    Ok(password)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.stdin(Stdio::null()).output().with_context(|| {
        format!("cannot start {name}: install the PostgreSQL client tools (postgresql-client on Debian)")
    })?;
    if !ended.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_on_the_command_line() {
        let addresses = [
            ("postgres://ada:se%63ret@h/d", "postgres://ada@h/d"),
            ("postgres://ada@h/d?password=secret", "postgres://ada@h/d"),
            (
                "postgres://ada:other@h/d?sslmode=require&pass%77ord=secret&options=-c%20a%3Db",
                "postgres://ada@h/d?sslmode=require&options=-c%20a%3Db",
            ),
        ];
        for (address, shown) in addresses {
            let command = program("pg_dump", Some(address)).unwrap();
            let arguments: Vec<_> = command.get_args().collect();
            assert_eq!(arguments, ["--dbname", shown]);
            let set: Vec<_> = command.get_envs().collect();
            assert_eq!(set, [("PGPASSWORD".as_ref(), Some("secret".as_ref()))], "{address}");
        }
    }
}
