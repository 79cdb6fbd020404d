use boxed::boxed;
use uuid::Uuid;

use crate::Service;
use crate::db::{Session, changed, on};
use crate::error::{Error, Result};

impl Service {
    /// Makes sure that what is encrypted in the database can be read with the keys at hand, before anything relies on it.
    ///
    /// With another newest key, what older ones encrypted is encrypted again, so that they can go. If that is broken off, the
    /// next start goes on with it.
    #[boxed]
    pub async fn check_secret_key(&self) -> Result<()> {
        const SQL: &str = "INSERT INTO instance (id, secret_id) VALUES (1, $1) \
            ON CONFLICT (id) DO UPDATE SET secret_id = excluded.secret_id";
        let encryptor = &self.core.instance.encryptor;
        // Every start asks, and hardly any has to write.
        let known = encrypted_with(&mut self.core.store.read().await?).await?;
        match known {
            Some(id) if !encryptor.knows(&id) => return Err(wrong_key()),
            Some(id) if id == encryptor.id() => return Ok(()),
            Some(_) => {
                self.rotate_secret_key().await?;
            }
            None => {}
        }
        let mut db = self.write().await?;
        changed!(db, sqlx::query(SQL).bind(encryptor.id().as_slice()))?;
        db.commit_unrecorded().await
    }

    /// What tells this database from all others, restored copies of it aside. The secret key was checked before.
    #[boxed]
    pub async fn instance_uuid(&self) -> Result<Uuid> {
        const MAKE: &str = "UPDATE instance SET uuid = $1 WHERE id = 1 AND uuid IS NULL";
        if let Some(uuid) = instance_uuid(&mut self.core.store.read().await?).await? {
            return Ok(uuid);
        }
        let mut db = self.write().await?;
        let made = db.uuid();
        changed!(db, sqlx::query(MAKE).bind(made))?;
        let uuid = instance_uuid(&mut db).await?.unwrap_or(made);
        db.commit_unrecorded().await?;
        Ok(uuid)
    }
}

async fn instance_uuid(db: &mut Session) -> Result<Option<Uuid>> {
    const SQL: &str = "SELECT uuid FROM instance WHERE id = 1";
    let uuid: Option<Option<Uuid>> = on!(db, conn => sqlx::query_scalar(SQL).fetch_optional(conn))?;
    Ok(uuid.flatten())
}

async fn encrypted_with(db: &mut Session) -> Result<Option<Vec<u8>>> {
    const SQL: &str = "SELECT secret_id FROM instance WHERE id = 1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).fetch_optional(conn))?)
}

fn wrong_key() -> Error {
    let detail = "The secrets in this database were encrypted with a different key. Set HEDGEROW_SECRET_KEY to that \
                  key, or to both keys separated by a comma, the new one first.";
    Error::invalid("secret_key", "invalid_input", detail)
}
