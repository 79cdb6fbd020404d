//! Large amounts of made-up data, written by the database itself.

use anyhow::Context;
use sqlx::{Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

/// How many of each there are to be.
#[derive(Debug, Clone, Copy)]
pub struct SeedSizes {
    pub organizations: i64,
    pub members: i64,
    pub exports: i64,
}

/// Makes the first owner a member of `amounts.organizations` organizations, and gives the oldest one `amounts.members`
/// members in total and `amounts.exports` exports that have run. Returns the oldest organization.
pub async fn fill(database_url: &str, amounts: SeedSizes) -> anyhow::Result<Uuid> {
    if database_url.starts_with("postgres") {
        let mut db = PgConnection::connect(database_url).await?;
        for text in statements(POSTGRES, amounts) {
            sqlx::raw_sql(sqlx::AssertSqlSafe(text))
                .execute(&mut db)
                .await
                .context("cannot fill the database")?;
        }
        Ok(sqlx::query_scalar(OLDEST).fetch_one(&mut db).await?)
    } else {
        let mut db = SqliteConnection::connect(database_url).await?;
        for text in statements(SQLITE, amounts) {
            sqlx::raw_sql(sqlx::AssertSqlSafe(text))
                .execute(&mut db)
                .await
                .context("cannot fill the database")?;
        }
        Ok(sqlx::query_scalar(OLDEST).fetch_one(&mut db).await?)
    }
}

/// How a database spells what the two do differently.
#[derive(Clone, Copy)]
struct Dialect {
    /// A time-ordered id made from the number `i` and a table's own digit.
    id: fn(table: char) -> String,
    /// The numbers from 1 to `most` as the column `i` of `n`.
    numbers: fn(most: i64) -> String,
    /// The moment of everything, and `i` hours.
    hours_later: &'static str,
    random_id: &'static str,
    json: &'static str,
    no: &'static str,
    /// PostgreSQL keeps every version of a row that one transaction changes a million times, so it counts at the end.
    before: &'static str,
    after: &'static str,
    at_end: &'static str,
}

const OLDEST: &str = "SELECT id FROM organization ORDER BY created_at, id LIMIT 1";
/// How many runs each export has had.
const RUNS: i64 = 10;
/// Before anything that is made afterwards.
const MOMENT: &str = "'2026-01-01 00:00:00+00:00'";

const SQLITE: Dialect = Dialect {
    id: |table| format!("unhex(printf('%012x7{table}008%015x', 1700000000000 + i, i))"),
    numbers: |most| {
        format!("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {most}) SELECT i FROM n) n")
    },
    hours_later: "strftime('%Y-%m-%d %H:%M:%S+00:00', '2026-01-01', '+' || i || ' hours')",
    random_id: "randomblob(16)",
    json: "'{}'",
    no: "0",
    before: "",
    after: "",
    at_end: "ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)",
};

const POSTGRES: Dialect = Dialect {
    id: |table| {
        format!("(lpad(to_hex(1700000000000 + i), 12, '0') || '7{table}008' || lpad(to_hex(i), 15, '0'))::uuid")
    },
    numbers: |most| format!("generate_series(1::bigint, {most}) AS n(i)"),
    hours_later: "'2026-01-01 00:00:00+00:00'::timestamptz + i * interval '1 hour'",
    random_id: "gen_random_uuid()",
    json: "'{}'::jsonb",
    no: "false",
    before: "ALTER TABLE member DISABLE TRIGGER member_joined",
    after: "ALTER TABLE member ENABLE TRIGGER member_joined; \
        UPDATE organization SET member_count = (SELECT count(*) FROM member m WHERE m.organization_id = organization.id); \
        DELETE FROM user_organizations; \
        INSERT INTO user_organizations SELECT user_id, organization_shard(organization_id), count(*) FROM member GROUP BY 1, 2",
    at_end: "VACUUM ANALYZE",
};

fn statements(dialect: Dialect, amounts: SeedSizes) -> Vec<String> {
    let mut all = vec![dialect.before.to_owned()];
    all.extend(people(dialect, amounts));
    all.push(dialect.after.to_owned());
    if amounts.exports > 0 {
        all.extend(exports(dialect, amounts.exports));
    }
    all.push(dialect.at_end.to_owned());
    all
}

fn people(dialect: Dialect, amounts: SeedSizes) -> [String; 5] {
    let Dialect {
        id, numbers, json, no, ..
    } = dialect;
    let more_organizations = (amounts.organizations - 1).max(1);
    let more_members = (amounts.members - 1).max(1);
    let owner = "(SELECT min(id) FROM app_user)";
    [
        format!(
            "INSERT INTO organization (id, name, slug, plugins_access_level, is_member_join_email_enabled, enforce_2fa, \
             metadata, created_at, updated_at) SELECT {}, 'Seeded ' || i, 'seeded-' || i, 9, {no}, {no}, '{{}}', {MOMENT}, {MOMENT} \
             FROM {}",
            id('0'),
            numbers(more_organizations)
        ),
        format!(
            "INSERT INTO team (uuid, organization_id, name, api_token, timezone, created_at, updated_at) \
             SELECT {}, {}, 'Default project', 'hgp_seeded' || i, 'UTC', {MOMENT}, {MOMENT} FROM {}",
            id('1'),
            id('0'),
            numbers(more_organizations)
        ),
        format!(
            "INSERT INTO member (id, organization_id, user_id, level, joined_at, updated_at) \
             SELECT {}, {}, {owner}, 15, {MOMENT}, {MOMENT} FROM {}",
            id('2'),
            id('0'),
            numbers(more_organizations)
        ),
        format!(
            "INSERT INTO app_user (uuid, distinct_id, first_name, last_name, email, email_key, search_text, \
             is_email_verified, hedgehog_config, created_at, updated_at) SELECT {}, 'seeded' || i, 'First' || i, \
             'Last' || i, 'user' || i || '@example.com', 'user' || i || '@example.com', \
             'first' || i || ' last' || i || ' user' || i || '@example.com', {no}, {json}, {MOMENT}, {MOMENT} FROM {}",
            id('3'),
            numbers(more_members)
        ),
        format!(
            "INSERT INTO member (id, organization_id, user_id, level, joined_at, updated_at) \
             SELECT {}, ({OLDEST}), (SELECT id FROM app_user WHERE email_key = 'user' || i || '@example.com'), 1, \
             {MOMENT}, {MOMENT} FROM {}",
            id('4'),
            numbers(more_members)
        ),
    ]
}

/// Exports that nobody carries out any more, each with what its last runs were like.
fn exports(dialect: Dialect, count: i64) -> [String; 2] {
    let Dialect {
        id,
        numbers,
        hours_later,
        random_id,
        json,
        no,
        ..
    } = dialect;
    [
        format!(
            "INSERT INTO batch_export (id, organization_id, team_id, name, model, frequency, kind, config, paused, \
             scheduled_until, created_at, updated_at) SELECT {}, ({OLDEST}), \
             (SELECT min(id) FROM team WHERE organization_id = ({OLDEST})), 'Export ' || i, 'events', 'hour', 'NoOp', \
             {json}, {no}, {MOMENT}, {MOMENT}, {MOMENT} FROM {}",
            id('5'),
            numbers(count)
        ),
        format!(
            "INSERT INTO export_run (id, organization_id, batch_export_id, data_interval_start, data_interval_end, status, \
             is_resend, records_completed, records_total_count, bytes_exported, destination_key, attempt, tries, queued_at, \
             created_at, finished_at, updated_at) SELECT {random_id}, e.organization_id, e.id, {hours_later}, \
             {hours_later}, CASE WHEN i = 7 THEN 'Failed' ELSE 'Completed' END, {no}, 100 * i, 100 * i, 5000 * i, '', 1, 1, \
             {hours_later}, {hours_later}, {hours_later}, {hours_later} FROM batch_export e CROSS JOIN {}",
            numbers(RUNS)
        ),
    ]
}
