//! What the tables look like when we make them.

use uuid::Uuid;

use super::address::Tables;
use super::client::{Client, Statement, identifier};
use crate::{Error, Result};

/// An insert that was repeated within so many others of its table is known by its token, and not stored again.
const REMEMBERED_INSERTS: u32 = 10_000;

/// So many rows are read to find one. Persons are looked up one by one, thousands of them among millions.
const LOOKED_UP: u32 = 256;

/// Makes the tables that are not there.
pub(super) async fn create(client: &Client, tables: &Tables) -> Result<()> {
    let events = format!(
        "CREATE TABLE IF NOT EXISTS {} (
            team_id Int64,
            uuid UUID,
            event LowCardinality(String),
            distinct_id String,
            properties String CODEC(ZSTD(3)),
            elements_chain String,
            timestamp DateTime64(6, 'UTC'),
            person_id UUID,
            person_properties String CODEC(ZSTD(3)),
            created_at DateTime64(6, 'UTC'),
            inserted_at DateTime64(6, 'UTC')
        ) ENGINE = MergeTree
        PARTITION BY toYYYYMM(inserted_at)
        ORDER BY (team_id, inserted_at, uuid)
        SETTINGS non_replicated_deduplication_window = {REMEMBERED_INSERTS}",
        identifier(&tables.events)
    );
    let persons = format!(
        "CREATE TABLE IF NOT EXISTS {} (
            team_id Int64,
            id UUID,
            properties String CODEC(ZSTD(3)),
            property_bytes UInt64 MATERIALIZED length(properties),
            is_identified Bool,
            is_deleted Bool,
            created_at DateTime64(6, 'UTC'),
            version Int64,
            inserted_at DateTime64(6, 'UTC')
        ) ENGINE = ReplacingMergeTree(version)
        ORDER BY (team_id, id)
        SETTINGS non_replicated_deduplication_window = {REMEMBERED_INSERTS}, index_granularity = {LOOKED_UP}",
        identifier(&tables.persons)
    );
    let distinct_ids = format!(
        "CREATE TABLE IF NOT EXISTS {} (
            team_id Int64,
            distinct_id String,
            person_id UUID,
            version Int64,
            inserted_at DateTime64(6, 'UTC'),
            INDEX by_person person_id TYPE bloom_filter(0.001) GRANULARITY 8
        ) ENGINE = ReplacingMergeTree(version)
        ORDER BY (team_id, distinct_id)
        SETTINGS non_replicated_deduplication_window = {REMEMBERED_INSERTS}, index_granularity = {LOOKED_UP}",
        identifier(&tables.distinct_ids)
    );
    // For tables from before there was such a column.
    let sizes = format!(
        "ALTER TABLE {} ADD COLUMN IF NOT EXISTS property_bytes UInt64 MATERIALIZED length(properties)",
        identifier(&tables.persons)
    );
    for sql in [events, persons, distinct_ids, sizes] {
        client.run(Statement::new(sql)).await?;
    }
    Ok(())
}

/// Says whose tables these are. Of several who say so at once, all are told the same.
pub(super) async fn claim(client: &Client, instance: Uuid) -> Result<Uuid> {
    let table = "CREATE TABLE IF NOT EXISTS hedgerow_instance (uuid UUID, claimed_at DateTime64(6, 'UTC')) \
        ENGINE = MergeTree ORDER BY claimed_at";
    client.run(Statement::new(table)).await?;
    if let Some(first) = claimed(client).await? {
        return Ok(first);
    }
    let sql = "INSERT INTO hedgerow_instance SELECT {uuid:UUID}, now64(6, 'UTC')";
    client.run(Statement::new(sql).bind("uuid", instance)).await?;
    claimed(client).await?.ok_or(Error::CutOff)
}

async fn claimed(client: &Client) -> Result<Option<Uuid>> {
    let sql = "SELECT uuid FROM hedgerow_instance ORDER BY claimed_at, uuid LIMIT 1";
    let text = client.text(Statement::new(sql)).await?;
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Error::CutOff),
    }
}
