//! A second verifier, made by others: XML Security Library, by its command line (`apt-get install xmlsec1`).

use std::process::Command;

use tempfile::TempDir;

use super::fixtures::fixture;

const KEYS: [(&str, &str); 3] = [
    ("rsa.pem", fixture!("rsa.crt")),
    ("p256.pem", fixture!("p256.crt")),
    ("p384.pem", fixture!("p384.crt")),
];

pub(crate) struct Judge {
    folder: TempDir,
}

impl Judge {
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("hedgerow-").expect("a folder");
        for (name, certificate) in KEYS {
            std::fs::write(folder.path().join(name), certificate).expect("a certificate");
        }
        Self { folder }
    }

    /// Whether each signature in the document was made with one of the trusted keys, and covers what it refers to.
    pub(crate) fn agrees(&self, xml: &str) -> bool {
        let document = self.folder.path().join("response.xml");
        std::fs::write(&document, xml).expect("a document");
        let is_end = |rest: &str| {
            rest.split('>')
                .next()
                .is_some_and(|name| name.trim_end().ends_with("SignedInfo"))
        };
        let signatures = xml.split("</").skip(1).filter(|rest| is_end(rest)).count();
        signatures > 0 && (1..=signatures).all(|number| KEYS.iter().any(|(key, _)| self.is_signed(number, key)))
    }

    fn is_signed(&self, number: usize, key: &str) -> bool {
        let mut xmlsec = Command::new("xmlsec1");
        xmlsec
            .current_dir(&self.folder)
            .args(["--verify", "--enabled-key-data", "key-name", "--pubkey-cert-pem", key]);
        for element in ["assertion:Assertion", "protocol:Response"] {
            xmlsec.args(["--id-attr:ID", &format!("urn:oasis:names:tc:SAML:2.0:{element}")]);
        }
        let signature = format!("(//*[local-name()='Signature'])[{number}]");
        xmlsec.args([
            "--enabled-reference-uris",
            "same-doc",
            "--node-xpath",
            &signature,
            "response.xml",
        ]);
        let output = xmlsec.output().expect("xmlsec1 is installed: apt-get install xmlsec1");
        output.status.success()
    }
}
