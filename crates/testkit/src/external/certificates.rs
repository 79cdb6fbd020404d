//! Keys and certificates made on the spot, so that none is kept in the repository or runs out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::run;

/// A certificate and its key, as files.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Pair {
    pub(super) fn pem(&self) -> String {
        fs::read_to_string(&self.certificate).expect("the certificate was written")
    }
}

/// Vouched for by itself alone, as identity providers do it.
pub(super) fn self_signed(folder: &Path, name: &str) -> Pair {
    make(folder, name, &["-newkey", "rsa:2048", "-sha256"])
}

/// An authority, and a certificate of it for this machine. One that is its own authority would be refused.
pub(super) fn for_loopback(folder: &Path) -> (Pair, Pair) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let authority = make(folder, "authority", &curve);
    let (certificate, key) = (authority.certificate.display(), authority.key.display());
    let signing = [
        "-CA".to_owned(),
        certificate.to_string(),
        "-CAkey".to_owned(),
        key.to_string(),
    ];
    let mut arguments = curve.to_vec();
    arguments.extend(signing.iter().map(String::as_str));
    arguments.extend(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
    arguments.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let server = make(folder, "localhost", &arguments);
    (authority, server)
}

fn make(folder: &Path, name: &str, arguments: &[&str]) -> Pair {
    let pair = Pair {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-nodes", "-days", "30", "-subj", &format!("/CN={name}")])
        .args(arguments)
        .arg("-out")
        .arg(&pair.certificate)
        .arg("-keyout")
        .arg(&pair.key);
    run(&mut openssl);
    pair
}

/// Makes an RSA key and returns its public half, in PEM.
pub(super) fn rsa_key(folder: &Path, name: &str) -> String {
    let key = folder.join(format!("{name}.key"));
    let options = [
        "genpkey",
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:2048",
        "-out",
    ];
    run(Command::new("openssl").args(options).arg(&key));
    run(Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key))
}

/// The private half, in PEM, PKCS #8.
pub(super) fn read_key(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("{name}.key"))).expect("the key was written")
}

/// The same, encrypted.
pub(super) fn encrypted_key(folder: &Path, name: &str, passphrase: &str, cipher: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "pkcs8",
        "-topk8",
        "-v2",
        cipher,
        "-passout",
        &format!("pass:{passphrase}"),
        "-in",
    ]);
    run(openssl.arg(folder.join(format!("{name}.key"))))
}
