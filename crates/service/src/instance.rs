//! What this installation is, as told by whoever starts it.

use auth::encryption::Encryptor;
use uuid::Uuid;

use crate::Service;
use crate::db::{Session, WriteTx, changed, on};
use crate::error::{Error, Result};
use crate::id::DomainId;
use crate::limits::HourlyLimits;
use crate::sso::Sso;

#[derive(Debug, Clone)]
pub struct Instance {
    /// Where links in mail begin, and what identity providers know us by; without a slash at the end.
    pub site_url: String,
    /// Whether there is a mail server. Without one, no mail is written.
    pub sends_mail: bool,
    /// For how long an invite is good.
    pub invite_days: i64,
    /// The providers that anybody may sign in with, as far as the instance has set them up.
    pub providers: Vec<Sso>,
    pub encryptor: Encryptor,
    pub hourly_limits: HourlyLimits,
}

impl Instance {
    pub const INVITE_DAYS: i64 = 3;

    /// One without mail, for tests and for commands that need none.
    pub fn plain(encryptor: Encryptor) -> Self {
        Self {
            site_url: "http://127.0.0.1:8000".to_owned(),
            sends_mail: false,
            invite_days: Self::INVITE_DAYS,
            providers: Vec::new(),
            encryptor,
            hourly_limits: HourlyLimits::default(),
        }
    }

    /// Where a domain's OpenID provider sends people back to, to be registered there. Each provider has an address of its
    /// own: with one for all, a hostile one could have the codes of another brought to it.
    pub fn oidc_redirect_url(&self, domain: DomainId) -> String {
        format!("{}/oidc/{domain}/callback/", self.site_url)
    }

    /// The same for a provider of the whole instance.
    pub fn sso_redirect_url(&self, sso: Sso) -> String {
        format!("{}/sso/{sso}/callback/", self.site_url)
    }
}

impl Service {
    pub fn instance(&self) -> &Instance {
        &self.core.instance
    }

    /// Makes sure that what is encrypted in the database can be read with the keys at hand, before anything relies on it.
    ///
    /// With another newest key, what older ones encrypted is encrypted again, so that they can go. If that is broken off, the
    /// next start goes on with it.
    pub async fn check_secret_key(&self) -> Result<()> {
        const SQL: &str = "INSERT INTO instance (id, secret_id) VALUES (1, $1) \
            ON CONFLICT (id) DO UPDATE SET secret_id = excluded.secret_id";
        let encryptor = &self.core.instance.encryptor;
        // Every start asks, and hardly any has to write.
        match encrypted_with(&mut self.core.store.read().await?).await? {
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

impl WriteTx {
    /// Encrypts a secret for the one place it is kept in.
    pub(crate) fn encrypt(&self, encryptor: &Encryptor, place: &str, plain: &[u8]) -> Vec<u8> {
        encryptor.encrypt(place, plain, self.random.bytes())
    }

    /// Codes for people to print out and keep, as they are compared.
    pub(crate) fn recovery_codes(&self) -> Vec<String> {
        auth::totp::recovery::recovery_codes(std::array::from_fn(|_| self.random.bytes()))
    }
}
