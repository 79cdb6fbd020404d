//! Apps in a folder of this server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use apps::source::Error;
use apps::{Files, Limits, Sources};
use outbound::Policy;
use tempfile::TempDir;

use crate::remote_host::client;

/// A folder with the apps in it, and one beside it. Both go with the handle.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(TempDir::with_prefix("hedgerow-").unwrap());
        disk.write("apps/small/plugin.json", "{}");
        disk.write("apps/small/src/index.ts", "1");
        disk.write("outside/secret.ts", "secret");
        disk
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.path(path)).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources {
            local_root: Some(self.path("apps")),
            ..Sources::new(client(Policy::default()), client(Policy::default()))
        }
    }

    async fn read(&self, url: &str) -> Result<Files, Error> {
        self.sources().local(url).await
    }
}

#[tokio::test]
async fn a_local_app_is_read_by_its_path_or_its_url() {
    let disk = Disk::new();
    disk.write("apps/small/node_modules/a/index.js", "left out");
    disk.write("apps/small/logo.png", [0; 10]);
    let path = disk.path("apps/small");
    let path = path.to_str().unwrap();
    for url in [
        "small",
        "./small",
        "small/",
        "file:small",
        path,
        &format!("file:{path}"),
        &format!("file://{path}"),
    ] {
        let files = disk.read(url).await.unwrap();
        assert_eq!(
            files.into_keys().collect::<Vec<_>>(),
            ["plugin.json", "src/index.ts"],
            "{url}"
        );
    }
    assert_eq!(disk.read("small/src").await.unwrap()["index.ts"], "1");
}

#[tokio::test]
async fn nothing_outside_of_the_root_is_read_or_told_of() {
    let disk = Disk::new();
    disk.link(disk.path("outside"), "apps/linked");
    disk.write("apps-too/plugin.json", "{}");
    let outside = disk.path("outside");
    let too = disk.path("apps-too");
    for url in [
        "",
        "file:",
        "..",
        "../outside",
        "small/../../outside",
        "file:../outside",
        "/etc",
        "file:///etc",
        "/",
        outside.to_str().unwrap(),
        too.to_str().unwrap(),
        "linked",
        "nothing",
        "small/plugin.json",
        "small\0",
    ] {
        let error = disk.read(url).await.unwrap_err();
        assert!(
            matches!(error, Error::NoFolder(_)) && error.is_theirs(),
            "{url:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn links_that_lead_out_are_refused_and_others_are_followed() {
    let disk = Disk::new();
    disk.write("apps/shared/help.ts", "help");
    disk.link("../shared/help.ts", "apps/small/help.ts");
    disk.link("../shared", "apps/small/shared");
    let files = disk.read("small").await.unwrap();
    assert_eq!(
        (files["help.ts"].as_str(), files["shared/help.ts"].as_str()),
        ("help", "help")
    );
    for target in ["../../outside/secret.ts", "../../outside", "/etc/passwd"] {
        disk.link(target, "apps/small/evil");
        let error = disk.read("small").await.unwrap_err();
        assert!(matches!(error, Error::EscapesRoot(name) if name == "evil"), "{target}");
        fs::remove_file(disk.path("apps/small/evil")).unwrap();
    }
}

#[tokio::test]
async fn a_circle_of_links_ends() {
    let disk = Disk::new();
    disk.link("..", "apps/small/src/round");
    let error = disk.read("small").await.unwrap_err();
    assert!(
        matches!(error, Error::TooDeep { .. } | Error::TooManyEntries { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_limits_hold_on_disk_too() {
    let disk = Disk::new();
    disk.write("apps/small/large.ts", vec![b'x'; 1001]);
    let sources = Sources {
        limits: Limits {
            file: 1000,
            ..Limits::default()
        },
        ..disk.sources()
    };
    let error = sources.local("small").await.unwrap_err();
    assert!(matches!(error, Error::FileTooLarge { name, .. } if name == "large.ts"));
    fs::create_dir(disk.path("apps/empty")).unwrap();
    assert!(matches!(disk.read("empty").await, Err(Error::Empty)));
}

/// Reading a pipe would wait for ever.
#[tokio::test]
async fn a_pipe_is_not_opened() {
    let disk = Disk::new();
    let socket = disk.path("apps/small/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = disk.read("small").await.unwrap_err();
    assert!(matches!(error, Error::NotAFile(name) if name == "socket"));
}

#[tokio::test]
async fn without_a_root_there_are_no_local_apps() {
    let sources = Sources::new(client(Policy::default()), client(Policy::default()));
    let error = sources.local("small").await.unwrap_err();
    assert!(matches!(error, Error::NoLocalApps));
    assert!(error.to_string().contains("HEDGEROW_LOCAL_APPS"));
}

#[tokio::test]
async fn a_root_that_is_gone_is_the_operators_trouble() {
    let disk = Disk::new();
    let sources = Sources {
        local_root: Some(disk.path("gone")),
        ..disk.sources()
    };
    let error = sources.local("small").await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }) && !error.is_theirs());
    assert!(!error.to_string().contains(disk.0.path().to_str().unwrap()));
}
