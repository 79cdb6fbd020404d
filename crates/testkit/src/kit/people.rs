//! People with keys, and organizations for them.

use service::access::Actor;
use service::keys::{Label, NewKey};
use service::organizations::NewOrganization;
use service::sessions::SignedIn;
use service::users::{NewUser, User};
use service::{Email, Name, OrganizationId, Scope, Service, TeamId};

/// Somebody with a key for everything.
#[derive(Debug, Clone)]
pub struct Person {
    pub user: User,
    pub key: String,
}

/// What most keys of tests are like.
pub fn everything() -> NewKey {
    NewKey {
        label: Label::new("Test key").expect("a label"),
        scopes: vec![Scope::Everything],
        scoped_organizations: None,
        scoped_teams: None,
        expires_at: None,
    }
}

pub(super) async fn person(service: &Service, email: &str, first_name: &str, last_name: &str) -> Person {
    person_of(service, new_user(email, first_name, last_name)).await
}

pub(super) fn new_user(email: &str, first_name: &str, last_name: &str) -> NewUser {
    NewUser {
        email: Email::new(email).expect("an address"),
        first_name: first_name.to_owned(),
        last_name: last_name.to_owned(),
        password: None,
        is_email_verified: false,
    }
}

pub(super) async fn person_of(service: &Service, new: NewUser) -> Person {
    let user = service
        .create_user(&Actor::system(), &new)
        .await
        .expect("a user is made");
    let fresh = service
        .create_key(&SignedIn::on_behalf_of(&user), &everything())
        .await
        .expect("a key is made");
    Person {
        user,
        key: fresh.secret,
    }
}

/// An organization with a team.
pub async fn organization_of(service: &Service, name: &str, owner: &Person) -> (OrganizationId, TeamId) {
    let name = Name::new(name).expect("a name");
    let new = NewOrganization {
        name,
        is_member_join_email_enabled: None,
        enforce_2fa: None,
    };
    let seen = service
        .create_organization_for(&Actor::system(), &new, &owner.user)
        .await;
    let seen = seen.expect("an organization is made");
    (seen.organization.id, seen.teams[0].id)
}
