//! A mail server that keeps what it is given.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::certificates::{self, Pair};
use super::http::encode;
use super::process::{Folder, Process};

/// How long a mail may take to come.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Begins in the clear, and takes no mail before STARTTLS.
    StartTls,
    /// Encrypted from the first byte.
    Implicit,
}

#[derive(Debug, Clone, Default)]
pub struct SmtpOptions {
    pub tls: Option<Tls>,
    /// User and password, without which no mail is taken.
    pub auth: Option<(String, String)>,
    /// Defaults to a free one.
    pub port: Option<u16>,
}

/// A mail as the server got it. `from` and `to` are the envelope's.
#[derive(Debug, Clone, Deserialize)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub reply_to: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
    pub headers: Vec<(String, String)>,
    pub is_encrypted: bool,
    /// Who had signed in to send it.
    pub login: Option<String>,
}

impl Mail {
    /// The first header of this name, decoded.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|header| header.0.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }
}

/// A running mail server, or one that is down for a while.
#[derive(Debug)]
pub struct Smtp {
    // Before the folder: the server ends first.
    process: Option<Process>,
    folder: Folder,
    options: SmtpOptions,
    port: u16,
    authority: Option<Pair>,
    server: Option<Pair>,
}

impl Smtp {
    pub fn start(options: SmtpOptions) -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.join("mails")).expect("a folder for mails");
        let pairs = options.tls.map(|_| certificates::for_loopback(folder.path()));
        let (authority, server) = pairs.unzip();
        let mut smtp = Self {
            process: None,
            folder,
            port: options.port.unwrap_or(0),
            options,
            authority,
            server,
        };
        smtp.start_again();
        smtp
    }

    /// Ends the server. Mails it took are still there.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts the server again, on the same port as before.
    pub fn start_again(&mut self) {
        self.stop();
        let options = json!({
            "folder": self.folder.path(),
            "port": self.port,
            "auth": self.options.auth,
            "tls": self.options.tls.map(|tls| match tls {
                Tls::StartTls => "starttls",
                Tls::Implicit => "implicit",
            }),
            "certificate": self.server.as_ref().map(|pair| &pair.certificate),
            "key": self.server.as_ref().map(|pair| &pair.key),
        });
        let mut command = Command::new(super::folder().join("python/bin/python"));
        command.arg(super::script("smtp.py")).arg(options.to_string());
        let mut process = Process::start(&mut command, &self.folder.join("smtp.log"));
        let port = process.ready()["port"].as_u64().and_then(|port| port.try_into().ok());
        self.port = port.expect("the server says its port");
        self.process = Some(process);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `smtp://` or `smtps://`, with user and password if they are needed.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls == Some(Tls::Implicit) {
            "smtps"
        } else {
            "smtp"
        };
        let credentials = self.options.auth.as_ref();
        let credentials = credentials.map(|(user, password)| format!("{}:{}@", encode(user), encode(password)));
        format!("{scheme}://{}127.0.0.1:{}", credentials.unwrap_or_default(), self.port)
    }

    /// The authority a client has to trust. There is none without TLS.
    pub fn ca_pem(&self) -> String {
        self.authority.as_ref().expect("a server with TLS").pem()
    }

    /// From now on this recipient is refused for good, with 550.
    pub fn refuse(&self, address: &str) {
        let file = self.folder.join("refused");
        let others = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("{others}{address}\n")).expect("the server is told");
    }

    /// The next `count` mails are put off with 451, at their sender's address.
    pub fn put_off(&self, count: u32) {
        fs::write(self.folder.join("busy"), count.to_string()).expect("the server is told");
    }

    /// All mails so far, oldest first.
    #[expect(
        clippy::unused_async,
        reason = "a test asks for mails as it asks for anything from outside"
    )]
    pub async fn mails(&self) -> Vec<Mail> {
        self.taken()
    }

    /// The first mail that `is_wanted`, which may still have to come.
    pub async fn wait_for(&self, is_wanted: impl Fn(&Mail) -> bool) -> Mail {
        let start = Instant::now();
        loop {
            let mails = self.taken();
            if let Some(mail) = mails.iter().find(|mail| is_wanted(mail)) {
                return mail.clone();
            }
            assert!(
                start.elapsed() < LIMIT,
                "no such mail within {LIMIT:?}; there are {mails:#?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn taken(&self) -> Vec<Mail> {
        let files = fs::read_dir(self.folder.join("mails")).expect("the folder of mails");
        let paths = files.map(|file| file.expect("a mail").path());
        let mut finished: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        finished.sort();
        let read = |path| serde_json::from_slice(&fs::read(path).expect("a mail")).expect("a mail as JSON");
        finished.iter().map(read).collect()
    }
}
