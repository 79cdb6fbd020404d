//! The first start: one owner, one organization, one key.

use boxed::boxed;

use crate::Service;
use crate::access::Actor;
use crate::activity::Entry;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::keys::{self, Label, NewKey};
use crate::operators;
use crate::organizations::{self, NewOrganization};
use crate::scope::Scope;
use crate::text::{Email, Name};
use crate::users::{self, NewUser, Person};

/// What automation may fix in advance; the rest is made up.
#[derive(Debug, Clone, Default)]
pub struct BootstrapOptions {
    pub email: Option<String>,
    pub password: Option<String>,
    pub api_key: Option<String>,
}

/// What the operator is told, once.
#[derive(Debug, Clone)]
pub struct InitialCredentials {
    pub email: String,
    pub password: String,
    pub api_key: String,
    /// Lets events in to the first team.
    pub team_token: String,
}

const EMAIL: &str = "owner@hedgerow.local";
const ORGANIZATION: &str = "My organization";
const LABEL: &str = "Initial key";

impl Service {
    /// Fills an empty database. `None` if it is not empty.
    #[boxed]
    pub async fn bootstrap(&self, options: &BootstrapOptions) -> Result<Option<InitialCredentials>> {
        if users::sql::count(&mut self.core.store.read().await?).await? > 0 {
            return Ok(None);
        }
        let mut credentials = self.initial_credentials(options)?;
        let email = field("email", Email::new(&credentials.email))?;
        let password = Some(credentials.password.clone());
        let new = NewUser {
            email,
            first_name: "Owner".to_owned(),
            last_name: String::new(),
            password,
            is_email_verified: true,
        };
        let hash = self.hash_of_new(&new, None).await?;
        let mut db = self.write().await?;
        wait_for_other_replicas(&mut db).await?;
        if users::sql::count(&mut db).await? > 0 {
            return Ok(None);
        }
        let owner = users::cases::insert(&mut db, &new, hash).await?;
        let (seen, mut entries) =
            organizations::creation::create(&mut db, &first_organization(), &Person::from(&owner), None, false).await?;
        let fresh = keys::cases::insert(&mut db, owner.id, &first_key(), credentials.api_key.clone(), false).await?;
        let operator = operators::bootstrap(&mut db, &owner).await?;
        entries.extend([Entry::created(&owner), operator, Entry::created(&fresh.key)]);
        db.commit(&Actor::system(), &entries).await?;
        credentials.team_token = seen
            .teams
            .into_iter()
            .map(|team| team.api_token)
            .next()
            .unwrap_or_default();
        Ok(Some(credentials))
    }

    fn initial_credentials(&self, options: &BootstrapOptions) -> Result<InitialCredentials> {
        let made_up_password = || auth::key::new_token("", self.core.random.bytes())[..20].to_owned();
        let made_up_key = || auth::key::new_key(self.core.random.bytes());
        let api_key = options.api_key.clone().unwrap_or_else(made_up_key);
        if !auth::key::is_well_formed(&api_key) {
            let detail = "Must be 16 to 512 printable ASCII characters without spaces. Keys that start with hgr_ \
                          need a valid checksum.";
            return Err(Error::invalid("bootstrap_api_key", "invalid_input", detail));
        }
        Ok(InitialCredentials {
            email: options.email.clone().unwrap_or_else(|| EMAIL.to_owned()),
            password: options.password.clone().unwrap_or_else(made_up_password),
            api_key,
            team_token: String::new(),
        })
    }
}

/// Several replicas may start on one empty PostgreSQL: one fills it, the others find it filled.
async fn wait_for_other_replicas(db: &mut Session) -> Result<()> {
    let sql = db.pick("SELECT 1", "LOCK TABLE app_user IN SHARE ROW EXCLUSIVE MODE");
    crate::db::changed!(db, sqlx::query(sql))?;
    Ok(())
}

fn first_organization() -> NewOrganization {
    let name = Name::new(ORGANIZATION).expect("the first name is a name");
    NewOrganization {
        name,
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    }
}

fn first_key() -> NewKey {
    let label = Label::new(LABEL).expect("the first label is a label");
    NewKey {
        label,
        scopes: vec![Scope::Everything],
        scoped_organizations: None,
        scoped_teams: None,
        expires_at: None,
    }
}

fn field<T>(name: &'static str, result: Result<T, crate::Invalid>) -> Result<T> {
    result.map_err(|invalid| Error::invalid(name, invalid.code, invalid.detail))
}
