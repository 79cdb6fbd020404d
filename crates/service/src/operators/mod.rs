//! Operators: the people who run this instance. Theirs is what concerns all organizations.

mod cases;
pub(crate) mod sql;

pub(crate) use cases::{bootstrap, forget, may_publish};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::Actor;
use crate::id::UserId;
use crate::sessions::SignedIn;

/// Somebody who acts for the whole instance: an operator who has signed in, or whoever can run commands on the machine.
#[derive(Debug, Clone)]
pub struct Operator {
    pub actor: Actor,
    /// None: the command line.
    person: Option<SignedIn>,
}

impl Operator {
    pub fn of_the_machine() -> Self {
        Self {
            actor: Actor::system(),
            person: None,
        }
    }

    fn user(&self) -> Option<UserId> {
        self.person.as_ref().map(|person| person.user)
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "email": "olga@example.com" }]))]
pub struct NewOperator {
    /// The email of a user with an account.
    #[schemars(length(min = 3, max = 254), extend("format" = "email"))]
    pub email: String,
}

/// What `plugins_access_level` can be: none, configure, install, root.
pub const APPS_LEVELS: [i16; 4] = [0, 3, 6, 9];

/// The fields that operators can change.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "plugins_access_level": 6 }]))]
pub struct InstanceOrganizationPatch {
    /// Its members' access to pipeline apps: 0 none, 3 configure, 6 install and write, 9 also publish for all
    /// organizations, if they are operators.
    #[schemars(extend("enum" = APPS_LEVELS))]
    pub plugins_access_level: Option<i16>,
}
