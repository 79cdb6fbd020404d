//! Names of tables: the owner's own, and those of stages.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{Delivery, Error};

/// A stage's name is longer, and ClickHouse makes a file of it.
const MAX_LENGTH: usize = 120;

/// A name that can be a table's. It is always quoted.
pub(super) fn checked(name: &str) -> Result<String, Error> {
    if name.trim().is_empty() {
        return Err(Error::plain("the name of the table is empty; give one"));
    }
    if name.len() > MAX_LENGTH {
        return Err(Error::plain(format!(
            "the name of the table is longer than {MAX_LENGTH} bytes; choose a shorter one"
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::plain(
            "the name of the table contains control characters; choose another one",
        ));
    }
    Ok(name.to_owned())
}

/// The tables of one delivery. All but the stage's name are the same for every attempt at it.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub target: String,
    /// Of this attempt alone, so that a worker who lost the run cannot write into its successor's.
    pub stage: String,
    /// What the names of all attempts' stages begin with.
    pub stages: String,
    /// The stage once it is complete: whoever finds it moves it over.
    pub ready: String,
    /// The same, but rows of the same ids are deleted first.
    pub replacing: String,
}

impl Names {
    pub(super) fn new(target: &str, delivery: &Delivery) -> Self {
        let key = key(delivery);
        let named = |what: &str| format!("{target}__hedgerow_{what}_{key}");
        let stages = format!("{}_", named("stage"));
        Self {
            stage: format!("{stages}{:08x}", nonce()),
            stages,
            ready: named("ready"),
            replacing: named("replacing"),
            target: target.to_owned(),
        }
    }
}

/// Tells the interval of this export from every other.
pub(super) fn key(delivery: &Delivery) -> String {
    let mut digest = Sha256::new();
    digest.update(delivery.export.0.as_bytes());
    digest.update(delivery.model.name());
    digest.update(delivery.start.timestamp_micros().to_be_bytes());
    digest.update(delivery.end.timestamp_micros().to_be_bytes());
    let digest = digest.finalize();
    let start = digest[..8].try_into().expect("a digest has more than eight bytes");
    format!("{:016x}", u64::from_be_bytes(start))
}

pub(super) fn nonce() -> u32 {
    let bytes = *Uuid::now_v7().as_bytes();
    u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
}
