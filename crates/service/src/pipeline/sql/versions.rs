//! Versions are asked for below an app that was found for the caller.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::db::{Session, changed, on};
use crate::error::{Error, Result};
use crate::id::{AppId, OrganizationId};
use crate::pipeline::types::{
    App, AppMetadata, Files, KEPT, KeptBytes, Manifest, Package, Script, Version, VersionName, VersionSeen,
};
use crate::transaction::WriteTx;

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Database(sqlx::Error::Decode(error.into())))
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and JSON are JSON")
}

/// PostgreSQL looks into what an app offers, and its JSON has no place for NUL. Whoever wrote one into a name meant nothing by it.
fn without_nul(value: Value) -> Value {
    let clean = |text: String| text.replace('\0', "\u{fffd}");
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(without_nul).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (clean(key), without_nul(value)))
            .collect(),
        other => other,
    }
}

/// One part of the code that an app has now. None: it has no code.
async fn part<T: DeserializeOwned>(db: &mut Session, sql: &'static str, app: &App) -> Result<Option<T>> {
    let row: Option<String> =
        on!(db, conn => sqlx::query_scalar(sql).bind(app.id).bind(app.version).fetch_optional(conn))?;
    row.map(|text| read(&text)).transpose()
}

pub(in super::super) async fn files(db: &mut Session, app: &App) -> Result<Option<Files>> {
    part(
        db,
        "SELECT files FROM pipeline_version WHERE app_id = $1 AND number = $2",
        app,
    )
    .await
}

/// As it is run, as text: whoever runs it reads it.
pub(in super::super) async fn code(db: &mut Session, app: &App) -> Result<Option<String>> {
    const SQL: &str = "SELECT code FROM pipeline_version WHERE app_id = $1 AND number = $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(app.id).bind(app.version).fetch_optional(conn))?)
}

/// How long the parts of a version are, without reading them. None: there is no such version.
pub(in super::super) async fn kept_bytes(db: &mut Session, app: AppId, number: i64) -> Result<Option<KeptBytes>> {
    const SQL: &str = "SELECT CAST(octet_length(files) AS BIGINT), CAST(octet_length(code) AS BIGINT) FROM pipeline_version \
        WHERE app_id = $1 AND number = $2";
    let row: Option<(i64, i64)> = on!(db, conn => sqlx::query_as(SQL).bind(app).bind(number).fetch_optional(conn))?;
    let bytes = |length: i64| usize::try_from(length).unwrap_or_default();
    Ok(row.map(|(files, code)| KeptBytes {
        files: bytes(files),
        code: bytes(code),
    }))
}

pub(in super::super) async fn metadata(db: &mut Session, app: &App) -> Result<Option<AppMetadata>> {
    part(
        db,
        "SELECT metadata FROM pipeline_version WHERE app_id = $1 AND number = $2",
        app,
    )
    .await
}

/// What was said of a version. None: there is no such version.
pub(in super::super) async fn manifest(db: &mut Session, app: AppId, number: i64) -> Result<Option<Manifest>> {
    const SQL: &str = "SELECT manifest, CASE WHEN manifest IS NULL THEN metadata END FROM pipeline_version \
        WHERE app_id = $1 AND number = $2";
    let row: Option<(Option<String>, Option<String>)> =
        on!(db, conn => sqlx::query_as(SQL).bind(app).bind(number).fetch_optional(conn))?;
    let read_row = |(manifest, metadata): (Option<String>, Option<String>)| match manifest {
        Some(manifest) => read(&manifest),
        None => read::<AppMetadata>(&metadata.unwrap_or_default()).map(Manifest::from),
    };
    row.map(read_row).transpose()
}

pub(in super::super) async fn save_manifest(db: &mut WriteTx, app: &App) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_version SET manifest = $3 WHERE app_id = $1 AND number = $2";
    let manifest = written(&Manifest::of(app));
    changed!(db, sqlx::query(SQL).bind(app.id).bind(app.version).bind(manifest))?;
    Ok(())
}

/// The same code as another version, with what is said of it now.
pub(in super::super) async fn copy(db: &mut WriteTx, app: &App, from: i64) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_version (app_id, number, tag, sha256, files, code, metadata, size, manifest, created_at) \
        SELECT app_id, $3, tag, sha256, files, code, metadata, size, $4, $5 FROM pipeline_version WHERE app_id = $1 AND number = $2";
    const SCRIPTS: &str = "INSERT INTO pipeline_script (app_id, number, name, code) \
        SELECT app_id, $3, name, code FROM pipeline_script WHERE app_id = $1 AND number = $2";
    let (now, manifest) = (db.now, written(&Manifest::of(app)));
    changed!(
        db,
        sqlx::query(SQL)
            .bind(app.id)
            .bind(from)
            .bind(app.version)
            .bind(manifest)
            .bind(now)
    )?;
    changed!(db, sqlx::query(SCRIPTS).bind(app.id).bind(from).bind(app.version))?;
    Ok(())
}

pub(in super::super) async fn find(db: &mut Session, app: AppId, number: i64) -> Result<Option<Version>> {
    const SQL: &str = "SELECT tag, files, metadata FROM pipeline_version WHERE app_id = $1 AND number = $2";
    let row: Option<(Option<String>, String, String)> =
        on!(db, conn => sqlx::query_as(SQL).bind(app).bind(number).fetch_optional(conn))?;
    let Some((tag, files, metadata)) = row else {
        return Ok(None);
    };
    Ok(Some(Version {
        tag,
        files: read(&files)?,
        metadata: read(&metadata)?,
    }))
}

/// Versions of an app, newest first, without what is in them.
macro_rules! names {
    ($more:literal) => {
        concat!(
            "SELECT number, tag, sha256, created_at",
            $more,
            " FROM pipeline_version WHERE app_id = $1 ORDER BY number DESC"
        )
    };
}

/// Newest first.
pub(in super::super) async fn of_app(db: &mut Session, app: AppId) -> Result<Vec<VersionName>> {
    const SQL: &str = names!("");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(app).fetch_all(conn))?)
}

#[derive(sqlx::FromRow)]
struct SeenRow {
    #[sqlx(flatten)]
    name: VersionName,
    names: String,
    capabilities: String,
}

/// Newest first. What is in the files stays in the database.
pub(in super::super) async fn seen(db: &mut Session, app: &App) -> Result<Vec<VersionSeen>> {
    let sql = db.pick(
        names!(
            ", (SELECT json_group_array(key) FROM json_each(files)) AS names, \
             json_extract(metadata, '$.capabilities') AS capabilities"
        ),
        names!(
            ", (SELECT COALESCE(json_agg(file.name), '[]') FROM json_object_keys(files::json) AS file (name))::text AS names, \
             (metadata::json -> 'capabilities')::text AS capabilities"
        ),
    );
    let rows: Vec<SeenRow> = on!(db, conn => sqlx::query_as(sql).bind(app.id).fetch_all(conn))?;
    let seen = |row: SeenRow| {
        let mut files: Vec<String> = read(&row.names)?;
        files.sort();
        Ok(VersionSeen {
            is_current: row.name.number == app.version,
            files,
            capabilities: read(&row.capabilities)?,
            name: row.name,
        })
    };
    rows.into_iter().map(seen).collect()
}

pub(in super::super) async fn newest(db: &mut Session, app: AppId) -> Result<i64> {
    const SQL: &str = "SELECT COALESCE(max(number), 0) FROM pipeline_version WHERE app_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(app).fetch_one(conn))?)
}

/// A package as it is kept.
pub(in super::super) struct Packed {
    pub(in super::super) metadata: AppMetadata,
    sha256: String,
    files: String,
    code: String,
    metadata_json: String,
    scripts: Vec<(Script, String)>,
}

impl Packed {
    /// Code may be long: nobody waits while it is written, neither for this thread nor for the database.
    pub(in super::super) async fn of(package: Package) -> Result<Self> {
        let packing = tokio::task::spawn_blocking(move || Self::write(package));
        let broken = |_| Error::Database(sqlx::Error::WorkerCrashed);
        packing.await.map_err(broken)?
    }

    fn write(package: Package) -> Result<Self> {
        let (files, code) = (written(&package.files), written(&package.code));
        let kept = KeptBytes {
            files: files.len(),
            code: code.len(),
        };
        kept.check()?;
        let (metadata_json, scripts) = apart(&package.metadata);
        scripts.iter().try_for_each(|(script, code)| script.check(code))?;
        Ok(Self {
            metadata: package.metadata,
            sha256: package.sha256,
            files,
            code,
            metadata_json,
            scripts,
        })
    }

    fn size(&self) -> i64 {
        let scripts: usize = self.scripts.iter().map(|(_, script)| script.len()).sum();
        let size = self.files.len() + self.code.len() + self.metadata_json.len() + scripts;
        i64::try_from(size).unwrap_or(i64::MAX)
    }
}

/// The code that an app has from now on.
pub(in super::super) async fn insert(db: &mut WriteTx, app: &App, packed: &Packed) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_version (app_id, number, tag, files, code, metadata, manifest, created_at, sha256, size) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(app.id)
            .bind(app.version)
            .bind(&app.tag)
            .bind(&packed.files)
            .bind(&packed.code)
            .bind(&packed.metadata_json)
            .bind(written(&Manifest::of(app)))
            .bind(now)
            .bind(&packed.sha256)
            .bind(packed.size())
    )?;
    for (script, code) in &packed.scripts {
        const SQL: &str = "INSERT INTO pipeline_script (app_id, number, name, code) VALUES ($1, $2, $3, $4)";
        changed!(
            db,
            sqlx::query(SQL)
                .bind(app.id)
                .bind(app.version)
                .bind(script.name())
                .bind(code)
        )?;
    }
    Ok(())
}

/// What is kept of what an app offers, and its scripts, which are kept by themselves.
fn apart(metadata: &AppMetadata) -> (String, Vec<(Script, String)>) {
    let mut rest = without_nul(serde_json::to_value(metadata).expect("metadata is JSON"));
    let mut scripts = Vec::new();
    for script in [Script::Site, Script::Frontend] {
        let found = rest.as_object_mut().and_then(|fields| fields.remove(script.name()));
        if let Some(Value::String(code)) = found {
            scripts.push((script, code));
        }
    }
    (written(&rest), scripts)
}

/// A version that nobody needs.
#[derive(sqlx::FromRow)]
pub(in super::super) struct Unused {
    app_id: AppId,
    number: i64,
    pub(in super::super) size: i64,
}

/// The bytes of all versions of an organization's apps.
pub(in super::super) async fn size_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT CAST(COALESCE(sum(v.size), 0) AS BIGINT) FROM pipeline_app a \
        JOIN pipeline_version v ON v.app_id = a.id WHERE a.organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Those of the organization that are neither current nor run by anybody, oldest first. What this app is about to have is not among them.
pub(in super::super) async fn unused(db: &mut Session, app: &App) -> Result<Vec<Unused>> {
    const SQL: &str = "SELECT v.app_id, v.number, v.size FROM pipeline_app a JOIN pipeline_version v ON v.app_id = a.id \
        WHERE a.organization_id = $1 AND v.number <> a.version AND NOT (v.app_id = $2 AND v.number = $3) AND NOT EXISTS \
        (SELECT 1 FROM pipeline_config c WHERE c.app_id = v.app_id AND c.version = v.number) \
        ORDER BY v.created_at, v.app_id, v.number";
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(app.organization_id).bind(app.id).bind(app.version).fetch_all(conn))?)
}

pub(in super::super) async fn delete(db: &mut WriteTx, version: &Unused) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_version WHERE app_id = $1 AND number = $2";
    changed!(db, sqlx::query(SQL).bind(version.app_id).bind(version.number))?;
    Ok(())
}

/// Lets go of the oldest, but for those that somebody still runs.
pub(in super::super) async fn prune(db: &mut WriteTx, app: AppId, newest: i64) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_version WHERE app_id = $1 AND number <= $2 AND NOT EXISTS \
        (SELECT 1 FROM pipeline_config c WHERE c.app_id = pipeline_version.app_id AND c.version = pipeline_version.number)";
    changed!(db, sqlx::query(SQL).bind(app).bind(newest - KEPT))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_has_no_nul_anywhere() {
        let metadata = json!({ "name": "a\0b", "capabilities": { "jobs": ["x\0", "\\u0000"], "k\0": 1 } });
        let kept =
            json!({ "name": "a\u{fffd}b", "capabilities": { "jobs": ["x\u{fffd}", "\\u0000"], "k\u{fffd}": 1 } });
        assert_eq!(without_nul(metadata), kept);
    }
}
