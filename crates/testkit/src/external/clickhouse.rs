//! `ClickHouse`: the engine of today behind a front of ours, and a genuine server of 2018.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use serde_json::json;

use super::http::{Page, encode, exchange};
use super::process::{Folder, Process, watched};

const USER: &str = "hedge";
const PASSWORD: &str = "row & thorn: 7%";

/// Where a connection breaks when a test lets it break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The statement has not been run.
    Before,
    /// The statement has been run, and nobody hears of it.
    After,
}

/// The engine (chDB) with an HTTP interface. It is empty at first; its database is `default`.
#[derive(Debug)]
pub struct ClickHouse {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    address: String,
    pub user: &'static str,
    pub password: &'static str,
}

impl ClickHouse {
    pub fn start() -> Self {
        let folder = Folder::new();
        let options = json!({ "folder": folder.path(), "user": USER, "password": PASSWORD });
        let mut command = Command::new(super::folder().join("clickhouse/bin/python"));
        command.arg(super::script("clickhouse.py")).arg(options.to_string());
        let mut process = Process::start(&mut command, &folder.join("clickhouse.log"));
        let port = process.ready()["port"].as_u64().expect("the front says its port");
        Self {
            _process: process,
            folder,
            address: format!("127.0.0.1:{port}"),
            user: USER,
            password: PASSWORD,
        }
    }

    /// Of the HTTP interface.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As the server's settings name it.
    pub fn store_url(&self) -> String {
        let credentials = format!("{}:{}", encode(USER), encode(PASSWORD));
        format!("clickhouse://{credentials}@{}/default", self.address)
    }

    /// Asks without a line of the code under test; what comes back is tab-separated.
    pub fn query(&self, sql: &str) -> String {
        let page = ask(&self.address, USER, PASSWORD, sql);
        assert_eq!(page.status, 200, "{sql}: {}", page.body);
        page.body
    }

    /// Lets `passing` more statements that change something through, then breaks the connection, once.
    pub fn cut(&self, passing: usize, cut: Cut) {
        fs::write(self.cut_file(cut), passing.to_string()).expect("the front is told");
    }

    /// Whether a cut that was asked for has not come yet. It comes no more.
    pub fn is_uncut(&self, cut: Cut) -> bool {
        fs::remove_file(self.cut_file(cut)).is_ok()
    }

    fn cut_file(&self, cut: Cut) -> std::path::PathBuf {
        self.folder.join(match cut {
            Cut::Before => "cut_before",
            Cut::After => "cut_after",
        })
    }
}

/// Debian's `ClickHouse` 18.16: a genuine server, too old for Arrow and parameters.
#[derive(Debug)]
pub struct OldClickHouse {
    // Before the folder: the server ends first.
    _process: Process,
    _folder: Folder,
    address: String,
    pub user: &'static str,
    pub password: &'static str,
}

impl OldClickHouse {
    pub fn start() -> Self {
        let started = (0..5).find_map(|_| Self::start_on(free_port(), free_port()));
        started.expect("ports that stay free for a moment")
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks without a line of the code under test; what comes back is tab-separated.
    pub fn query(&self, sql: &str) -> String {
        let page = ask(&self.address, USER, PASSWORD, sql);
        assert_eq!(page.status, 200, "{sql}: {}", page.body);
        page.body
    }

    /// Nothing if somebody else took a port in the meantime.
    fn start_on(http_port: u16, tcp_port: u16) -> Option<Self> {
        let folder = Folder::new();
        let configuration = folder.join("config.xml");
        fs::write(&configuration, configured(&folder, http_port, tcp_port)).expect("a configuration");
        fs::write(folder.join("users.xml"), users()).expect("a list of users");
        let unpacked = super::folder().join("clickhouse-server");
        let program = unpacked.join("usr/sbin/clickhouse-server");
        let libraries = ["usr/lib", "lib"].map(|lib| unpacked.join(lib).join("x86_64-linux-gnu"));
        let libraries = std::env::join_paths(libraries).expect("a path without a colon");
        let mut command = watched(program.to_str().expect("a path in UTF-8"));
        command
            .env("LD_LIBRARY_PATH", libraries)
            .arg(format!("--config-file={}", configuration.display()));
        let mut process = Process::start(&mut command, &folder.join("server.log"));
        let is_ours = process.until("the old server is ready", |log| {
            if log.contains("Address already in use") {
                return Some(false);
            }
            log.contains("Ready for connections").then_some(true)
        });
        is_ours.then(|| Self {
            _process: process,
            _folder: folder,
            address: format!("127.0.0.1:{http_port}"),
            user: USER,
            password: PASSWORD,
        })
    }
}

fn configured(folder: &Folder, http_port: u16, tcp_port: u16) -> String {
    let path = folder.path().display();
    format!(
        "<yandex>
  <logger><level>information</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http_port}</http_port>
  <tcp_port>{tcp_port}</tcp_port>
  <path>{path}/data/</path>
  <tmp_path>{path}/tmp/</tmp_path>
  <users_config>{path}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>5368709120</mark_cache_size>
</yandex>
"
    )
}

fn users() -> String {
    let password = PASSWORD.replace('&', "&amp;");
    format!(
        "<yandex>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users>
    <{USER}>
      <password>{password}</password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </{USER}>
  </users>
</yandex>
"
    )
}

fn ask(address: &str, user: &str, password: &str, sql: &str) -> Page {
    let length = sql.len();
    let request = format!(
        "POST /?wait_end_of_query=1 HTTP/1.0\r\nHost: {address}\r\nX-ClickHouse-User: {user}\r\n\
         X-ClickHouse-Key: {password}\r\nContent-Length: {length}\r\n\r\n{sql}"
    );
    exchange(address, &request).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("a bound socket").port()
}
