//! Everything that is encrypted, under another key: row by row, while replicas go on working.

use auth::encryption::Encryptor;
use boxed::boxed;
use uuid::Uuid;

use crate::Service;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, AppId, DomainId, ExportId, MailId, UserId};
use crate::transaction::WriteTx;

/// How many rows one transaction changes. What is committed stays, so a rotation that is broken off goes on where it was.
const BATCH: i64 = 200;

/// How many secrets are encrypted with which key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretKeyUse {
    /// With the newest.
    pub newest: i64,
    /// With one before it, or with one that is not known here.
    pub older: i64,
}

macro_rules! for_all_secrets {
    ($each:ident) => {
        $each!(UserId, "app_user", "totp_secret");
        $each!(DomainId, "domain", "oidc_client_secret");
        $each!(MailId, "email_outbox", "content");
        $each!(ExportId, "batch_export", "secrets");
        $each!(AppId, "pipeline_app", "private_token");
        $each!(AppConfigId, "pipeline_config", "secrets");
        $each!(String, "sso_request", "details");
        $each!(Uuid, "password_reset_request", "email");
    };
}

impl Service {
    /// Encrypts with the newest key whatever an older one encrypted, and says how much that was. A row that somebody else
    /// changes in the meantime keeps the change. A secret that no key at hand decrypts ends it, with an error.
    #[boxed]
    pub async fn rotate_secret_key(&self) -> Result<u64> {
        let encryptor = &self.core.instance.encryptor;
        let mut changed = 0;
        macro_rules! each {
            ($id:ty, $table:literal, $column:literal) => {{
                const READ: &str = concat!(
                    "SELECT id, ",
                    $column,
                    " FROM ",
                    $table,
                    " WHERE substr(",
                    $column,
                    ", 1, 4) <> $1 ORDER BY id LIMIT $2"
                );
                const WRITE: &str = concat!(
                    "UPDATE ",
                    $table,
                    " SET ",
                    $column,
                    " = $3 WHERE id = $1 AND ",
                    $column,
                    " = $2"
                );
                loop {
                    let mut db = self.write().await?;
                    let newest = encryptor.id().to_vec();
                    let rows: Vec<($id, Vec<u8>)> =
                        on!(db, conn => sqlx::query_as(READ).bind(&newest).bind(BATCH).fetch_all(conn))?;
                    if rows.is_empty() {
                        break;
                    }
                    for (id, encrypted) in rows {
                        let place = format!(concat!($table, "/{}/", $column), id);
                        let again = encrypted_again(&db, encryptor, &place, &encrypted)?;
                        changed += changed!(db, sqlx::query(WRITE).bind(&id).bind(&encrypted).bind(&again))?;
                    }
                    db.commit_unrecorded().await?;
                }
            }};
        }
        for_all_secrets!(each);
        Ok(changed)
    }

    /// How far a rotation has got: when nothing is under an older key, it can be taken away.
    #[boxed]
    pub async fn secret_key_use(&self) -> Result<SecretKeyUse> {
        let mut db = self.core.store.read().await?;
        let mut used = SecretKeyUse::default();
        let id = self.core.instance.encryptor.id().to_vec();
        macro_rules! each {
            ($id:ty, $table:literal, $column:literal) => {{
                const SQL: &str = concat!(
                    "SELECT count(*), count(CASE WHEN substr(",
                    $column,
                    ", 1, 4) = $1 THEN 1 END) FROM ",
                    $table,
                    " WHERE ",
                    $column,
                    " IS NOT NULL"
                );
                count(&mut db, SQL, &id, &mut used).await?;
            }};
        }
        for_all_secrets!(each);
        Ok(used)
    }
}

async fn count(db: &mut Session, sql: &'static str, id: &[u8], used: &mut SecretKeyUse) -> Result<()> {
    let (all, newest): (i64, i64) = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_one(conn))?;
    used.newest += newest;
    used.older += all - newest;
    Ok(())
}

fn encrypted_again(db: &WriteTx, encryptor: &Encryptor, place: &str, encrypted: &[u8]) -> Result<Vec<u8>> {
    let plain = encryptor.decrypt(place, encrypted).inspect_err(|_| {
        tracing::error!(
            place,
            "This secret was encrypted with a missing key, or for a different row."
        );
    })?;
    Ok(db.encrypt(encryptor, place, &plain))
}
