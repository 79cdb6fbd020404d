//! Stores of objects: `SeaweedFS` and moto for S3, Azurite for Azure, an emulator for Google Cloud Storage.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::process::{Folder, Process, run, watched};

/// What `SeaweedFS` knows; moto takes anything.
pub const S3_KEY: (&str, &str) = ("AKEXPORTS", "a-secret-of-the-tests");

/// The account that Azurite always has, as Microsoft documents it.
pub const AZURE_ACCOUNT: (&str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
);

/// A running store.
#[derive(Debug)]
pub struct ObjectStore {
    // Before the folder: the server ends first.
    _process: Process,
    _folder: Folder,
    kind: &'static str,
    port: u16,
}

impl ObjectStore {
    /// A real store that checks signatures. Buckets come into being with their first file.
    pub fn seaweedfs() -> Self {
        let folder = Folder::new();
        let identity = serde_json::json!({ "identities": [{
            "name": "tests",
            "credentials": [{ "accessKey": S3_KEY.0, "secretKey": S3_KEY.1 }],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }]});
        let config = folder.join("s3.json");
        std::fs::write(&config, identity.to_string()).expect("a configuration");
        let ports: Vec<u16> = free_ports(4);
        let program = super::folder().join("seaweedfs/bin/weed");
        let mut command = watched(&program.to_string_lossy());
        command.arg("server");
        // Each server of it listens for gRPC too, 10,000 ports higher unless it is told where.
        let grpc = free_ports(4);
        let options = [
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            format!("-dir={}", folder.path().display()),
            "-s3".to_owned(),
            format!("-s3.config={}", config.display()),
            format!("-master.port={}", ports[0]),
            format!("-volume.port={}", ports[1]),
            format!("-filer.port={}", ports[2]),
            format!("-s3.port={}", ports[3]),
            format!("-master.port.grpc={}", grpc[0]),
            format!("-volume.port.grpc={}", grpc[1]),
            format!("-filer.port.grpc={}", grpc[2]),
            format!("-s3.port.grpc={}", grpc[3]),
            // Fixed ports that two at once would fight for.
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
            // On unless told otherwise, and nothing of ours may leave this machine.
            "-master.telemetry=false".to_owned(),
            "-volume.max=30".to_owned(),
            // One hundredth of the disk unless told otherwise, and then it takes nothing.
            "-volume.minFreeSpace=100MiB".to_owned(),
            "-master.volumeSizeLimitMB=64".to_owned(),
        ];
        let mut process = Process::start(command.args(options), &folder.join("weed.log"));
        process.until("SeaweedFS answers", |_| is_listening(ports[3]).then_some(()));
        Self {
            _process: process,
            _folder: folder,
            kind: "s3",
            port: ports[3],
        }
    }

    /// Knows S3's errors and encryption, and checks no signatures.
    pub fn moto() -> Self {
        Self::python("moto", "s3")
    }

    /// Has the bucket `exports`, and checks no tokens.
    pub fn gcs() -> Self {
        Self::python("gcs", "gcs")
    }

    fn python(name: &str, kind: &'static str) -> Self {
        let folder = Folder::new();
        let mut command = Command::new(super::folder().join(name).join("bin/python"));
        command.arg(super::script("emulator.py")).arg(name);
        let mut process = Process::start(&mut command, &folder.join("emulator.log"));
        let port = process.ready()["port"].as_u64().and_then(|port| port.try_into().ok());
        Self {
            _process: process,
            _folder: folder,
            kind,
            port: port.expect("the server says its port"),
        }
    }

    /// Microsoft's own emulator, which checks keys.
    pub fn azurite() -> Self {
        let folder = Folder::new();
        let port = free_ports(1)[0];
        let mut command = watched("node");
        command
            .arg(super::folder().join("azurite/node_modules/azurite/dist/src/blob/main.js"))
            .args(["--blobHost", "127.0.0.1", "--skipApiVersionCheck", "--silent"])
            .args(["--disableTelemetry", "--blobPort"])
            .arg(port.to_string())
            .arg("--location")
            .arg(folder.path());
        let mut process = Process::start(&mut command, &folder.join("azurite.log"));
        process.until("Azurite answers", |_| is_listening(port).then_some(()));
        Self {
            _process: process,
            _folder: folder,
            kind: "azure",
            port,
        }
    }

    /// Such as `http://127.0.0.1:4566`; Azurite's has the account in it.
    pub fn base(&self) -> String {
        let account = if self.kind == "azure" { "/devstoreaccount1" } else { "" };
        format!("http://127.0.0.1:{}{account}", self.port)
    }

    /// Makes a bucket or a container, by another client than the one that is tested.
    pub fn make(&self, bucket: &str) {
        self.ask(&["make", bucket]);
    }

    /// Copies all that a reader sees in a bucket into a folder, and says for each key how it is encrypted.
    pub fn fetch(&self, bucket: &str, folder: &Path) -> Value {
        let said = self.ask(&["fetch", bucket, &folder.to_string_lossy()]);
        serde_json::from_str(&said).expect("facts as JSON")
    }

    fn ask(&self, action: &[&str]) -> String {
        let (name, secret) = if self.kind == "azure" { AZURE_ACCOUNT } else { S3_KEY };
        let mut command = Command::new(super::folder().join("moto/bin/python"));
        command.arg(super::script("objects.py")).args([self.kind, &self.base()]);
        run(command.args(action).args([name, secret]))
    }
}

/// Somebody else may take one in the meantime; the service then ends early and says so.
fn free_ports(count: usize) -> Vec<u16> {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let held: Vec<TcpListener> = (0..count).map(|_| free()).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("it listens").port();
    held.iter().map(port).collect()
}

fn is_listening(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connected = TcpStream::connect_timeout(&address, std::time::Duration::from_millis(200));
    // While nobody listens, a connection may get just this port as its own, and then answers itself.
    connected.is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != address))
}
