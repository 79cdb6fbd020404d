use serde_json::Map;
use sqlx::types::Json;

use super::{User, sql};
use crate::Service;
use crate::access::Who;
use crate::activity::Entry;
use crate::db::Writing;
use crate::error::{Error, Result};
use crate::id::UserUuid;
use crate::page::{Page, Window};
use crate::text::Email;

/// What it takes to make an account.
#[derive(Debug, Clone)]
pub struct NewUser {
    pub email: Email,
    pub first_name: String,
    pub last_name: String,
    /// Without one, the user gets in another way, or sets one later.
    pub password: Option<String>,
}

impl Service {
    pub async fn create_user(&self, who: &Who, new: &NewUser) -> Result<User> {
        let mut db = self.write().await?;
        let user = insert(&mut db, new)?.await?;
        db.commit(who, &[Entry::created(&user)]).await?;
        Ok(user)
    }

    pub async fn users(&self, window: Window) -> Result<Page<User>> {
        sql::page(&mut self.core.store.read().await?, window).await
    }

    pub async fn user_by_email(&self, email: &Email) -> Result<User> {
        sql::by_email(&mut self.core.store.read().await?, email)
            .await?
            .ok_or(Error::NotFound("user"))
    }

    /// Sets another password, for someone who has lost theirs. Ends all their sessions.
    pub async fn set_password(&self, who: &Who, email: &Email, password: &str) -> Result<User> {
        let hash = hash_password(password)?;
        let mut db = self.write().await?;
        let user = sql::by_email(&mut db, email).await?.ok_or(Error::NotFound("user"))?;
        sql::set_password(&mut db, user.id, &hash).await?;
        crate::sessions::sql::delete_of_user(&mut db, user.id).await?;
        db.commit(who, &[Entry::happened(&user, "password_changed")]).await?;
        Ok(user)
    }
}

/// Makes an account inside a larger use case. Hashes before the returned future touches the database.
pub(crate) fn insert<'a>(
    db: &'a mut Writing,
    new: &'a NewUser,
) -> Result<impl Future<Output = Result<User>> + Send + 'a> {
    let password_hash = new.password.as_deref().map(hash_password).transpose()?;
    Ok(async move {
        let uuid = UserUuid(db.uuid());
        let distinct_id = auth::key::new_token("", db.chance.bytes());
        let row = sql::Row {
            uuid,
            distinct_id: distinct_id.clone(),
            first_name: &new.first_name,
            last_name: &new.last_name,
            email: &new.email,
            password_hash,
        };
        let id = sql::insert(db, &row).await?;
        Ok(User {
            id,
            uuid,
            distinct_id,
            first_name: new.first_name.clone(),
            last_name: new.last_name.clone(),
            email: new.email.to_string(),
            is_email_verified: false,
            hedgehog_config: Json(Map::new()),
        })
    })
}

fn hash_password(password: &str) -> Result<String> {
    use auth::password::{MAX_LENGTH, MIN_LENGTH, hash};
    if password.chars().count() < MIN_LENGTH {
        let detail = format!("a password has at least {MIN_LENGTH} characters");
        return Err(Error::invalid("password", "password_too_short", detail));
    }
    if password.len() > MAX_LENGTH {
        let detail = format!("a password has at most {MAX_LENGTH} bytes");
        return Err(Error::invalid("password", "max_length", detail));
    }
    Ok(hash(password)?)
}
