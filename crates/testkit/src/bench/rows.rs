//! Made-up events: the same each time, with about 300 bytes of properties.

use std::path::Path;

use chrono::{DateTime, TimeDelta};
use events::sqlite::Embedded;
use events::{Events, Incoming, Scan, Time};
use hogql::Model;
use tokio::task::{JoinSet, spawn_blocking};

pub(super) const TEAM: i64 = 1;
const BATCH: u64 = 5000;
/// Batches on their way: one is made while another is written.
const AT_ONCE: usize = 3;
const PEOPLE: u64 = 5000;

/// All made-up events were taken in after this moment, and before [`end`].
pub(super) fn start() -> Time {
    DateTime::from_timestamp(1_794_700_800, 0).expect("a time of this century")
}

pub(super) fn end() -> Time {
    start() + TimeDelta::hours(1)
}

/// Fills a store.
pub async fn fill(store: &Path, rows: u64) -> anyhow::Result<()> {
    let embedded = Embedded::open(store)?;
    let events = Events::Embedded(embedded.clone());
    let mut in_progress: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for first in (0..rows).step_by(usize::try_from(BATCH)?) {
        while in_progress.len() >= AT_ONCE {
            in_progress.join_next().await.transpose()?.transpose()?;
        }
        let (events, past) = (events.clone(), BATCH.min(rows - first) + first);
        in_progress.spawn(async move {
            let made = spawn_blocking(move || (first..past).map(event).collect()).await?;
            let now = start() + TimeDelta::milliseconds(i64::try_from(first / BATCH)?);
            Ok(events.append(TEAM, made, now).await?)
        });
    }
    while let Some(done) = in_progress.join_next().await {
        done??;
    }
    Ok(embedded.close().await?)
}

/// How many events of a team a store holds.
pub async fn count(store: &Path, team: i64) -> anyhow::Result<u64> {
    let scan = Scan {
        team,
        query: exports::layout::files(Model::Events),
        start: None,
        end: DateTime::<chrono::Utc>::MAX_UTC,
        skip: 0,
        limit: None,
    };
    Ok(Events::Embedded(Embedded::open(store)?).count(scan).await?)
}

fn event(number: u64) -> Incoming {
    let text = properties(number);
    Incoming {
        uuid: None,
        event: name(number).to_owned(),
        distinct_id: distinct_id(number),
        properties: serde_json::from_str(&text).expect("it is written as JSON"),
        timestamp: start() + TimeDelta::microseconds(i64::try_from(number % 3_000_000_000).expect("it is small")),
    }
}

pub(super) fn name(number: u64) -> &'static str {
    ["$pageview", "$autocapture", "signed up", "paid"][index(number, 4)]
}

pub(super) fn distinct_id(number: u64) -> String {
    format!("user_{}", random(number) % PEOPLE)
}

/// About 300 bytes of JSON.
pub(super) fn properties(number: u64) -> String {
    let value = random(number);
    format!(
        r#"{{"$browser":"{}","$os":"{}","$current_url":"https://example.com/products/{}?ref={:x}","$screen_width":{},"$lib":"web","$lib_version":"1.{}.0","$session_id":"{:016x}{:016x}","amount":{}.{:02},"$ip":"{}.{}.{}.{}","is_first":{},"tags":["a","b{}"]}}"#,
        ["Chrome", "Firefox", "Safari"][index(number, 3)],
        ["Linux", "Mac OS X", "Windows", "iOS"][index(number / 3, 4)],
        value % 5000,
        value >> 40,
        1024 + value % 900,
        value % 200,
        random(value),
        random(value.wrapping_add(1)),
        value % 500,
        value % 100,
        value % 223,
        (value >> 8) % 256,
        (value >> 16) % 256,
        (value >> 24) % 256,
        value.is_multiple_of(2),
        value % 9,
    )
}

/// Numbers that look random and are the same each time.
pub(super) fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn index(number: u64, of: u64) -> usize {
    usize::try_from(random(number) % of).expect("it is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_json_of_about_300_bytes() {
        let sizes: Vec<usize> = (0..1000)
            .map(|number| {
                let text = properties(number);
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
                text.len()
            })
            .collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((250..350).contains(&mean), "{mean}");
    }
}
