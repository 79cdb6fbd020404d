//! Versions are asked for below an app that was found for the caller.

use crate::clock::Time;
use crate::db::{Session, Writing, changed, on};
use crate::error::{Error, Result};
use crate::id::AppId;
use crate::pipeline::versions::KEPT;
use crate::pipeline::{Package, Version, VersionName};

#[derive(sqlx::FromRow)]
struct Row {
    number: i64,
    tag: Option<String>,
    files: String,
    code: String,
    offers: String,
    created_at: Time,
}

impl TryFrom<Row> for Version {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let mut package: Package = read(&row.offers)?;
        (package.files, package.code) = (read(&row.files)?, read(&row.code)?);
        Ok(Self {
            number: row.number,
            tag: row.tag,
            package,
            created_at: row.created_at,
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Database(sqlx::Error::Decode(error.into())))
}

fn written(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and JSON are JSON")
}

pub(in super::super) async fn find(db: &mut Session, app: AppId, number: i64) -> Result<Option<Version>> {
    const SQL: &str =
        "SELECT number, tag, files, code, offers, created_at FROM pipeline_version WHERE app_id = $1 AND number = $2";
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(app).bind(number).fetch_optional(conn))?;
    row.map(Version::try_from).transpose()
}

/// Newest first.
pub(in super::super) async fn of_app(db: &mut Session, app: AppId) -> Result<Vec<VersionName>> {
    const SQL: &str = "SELECT number, tag, created_at FROM pipeline_version WHERE app_id = $1 ORDER BY number DESC";
    let rows: Vec<(i64, Option<String>, Time)> = on!(db, conn => sqlx::query_as(SQL).bind(app).fetch_all(conn))?;
    let named = rows.into_iter().map(|(number, tag, created_at)| VersionName {
        number,
        tag,
        created_at,
    });
    Ok(named.collect())
}

pub(in super::super) async fn newest(db: &mut Session, app: AppId) -> Result<i64> {
    const SQL: &str = "SELECT COALESCE(max(number), 0) FROM pipeline_version WHERE app_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(app).fetch_one(conn))?)
}

pub(in super::super) async fn insert(db: &mut Writing, app: AppId, version: &Version) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_version (app_id, number, tag, files, code, offers, created_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(app)
            .bind(version.number)
            .bind(&version.tag)
            .bind(written(&version.package.files))
            .bind(written(&version.package.code))
            .bind(written(&version.package))
            .bind(version.created_at)
    )?;
    Ok(())
}

/// Lets go of the oldest.
pub(in super::super) async fn prune(db: &mut Writing, app: AppId, newest: i64) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_version WHERE app_id = $1 AND number <= $2";
    changed!(db, sqlx::query(SQL).bind(app).bind(newest - KEPT))?;
    Ok(())
}
