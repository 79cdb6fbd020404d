//! Invites: how an organization asks somebody to join, and how they do.

mod accept;
mod cases;
pub(crate) mod sql;

pub use accept::{Accepted, Invited, NewAccount};
pub(crate) use cases::{revoke, revoke_of};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Caller, WriteInvites};
use crate::activity::Recorded;
use crate::cache::{Weigh, rows_of};
use crate::clock::Time;
use crate::error::{Error, Invalid, Result};
use crate::id::{InviteId, OrganizationId};
use crate::level::Level;
use crate::text::Email;
use crate::users::User;

/// How many invites one request may make.
pub const MAX_AT_ONCE: usize = 100;

/// How an invite's secret begins, so that people and scanners know what they found.
const TOKEN_PREFIX: &str = "hgi_";

#[derive(Debug, Clone, Serialize)]
pub struct Invite {
    pub id: InviteId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub target_email: String,
    pub first_name: String,
    pub level: Level,
    pub message: String,
    #[serde(skip)]
    pub emailing_attempt_made: bool,
    /// Why the mail could not be delivered, if it could not.
    #[serde(skip)]
    pub emailing_error: Option<String>,
    /// Nobody: their account is gone, or the command line did it.
    #[serde(skip)]
    pub created_by: Option<User>,
    pub created_at: Time,
    pub updated_at: Time,
    #[serde(skip)]
    pub expires_at: Time,
    /// Found by the secret that was in the mail.
    #[serde(skip)]
    pub(crate) is_from_mail: bool,
}

impl Weigh for Invite {
    fn rows(&self) -> usize {
        rows_of(self.message.len())
    }
}

/// An invite that was just made or renewed, with the one sight of its secrets.
#[derive(Debug, Clone)]
pub struct Fresh {
    pub invite: Invite,
    /// For the inviter to pass on.
    pub token: String,
    /// Only ever in the mail: whoever has it has the mailbox.
    pub(crate) mail_token: String,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "target_email": "ann@example.com", "first_name": "Ann", "level": 1 }]))]
pub struct NewInvite {
    /// The email to invite.
    #[schemars(length(min = 3, max = 254), extend("format" = "email"))]
    pub target_email: String,
    /// The recipient's first name.
    #[schemars(length(max = 30), regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"))]
    pub first_name: Option<String>,
    /// The role: 1 member, 8 administrator, 15 owner. At most your own.
    pub level: Option<Level>,
    /// A personal message, included in the email.
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 2000), extend("x-nullable" = true))]
    pub message: Option<String>,
    /// Whether to send an email. Defaults to true. The link is in the response either way.
    pub send_email: Option<bool>,
}

impl Invite {
    pub fn is_expired(&self, now: Time) -> bool {
        now >= self.expires_at
    }

    /// A new invite for the same address takes the place of this one, unless the caller could neither have sent nor
    /// revoke it: nobody shall take from somebody what was offered above their head.
    fn may_be_replaced_by(&self, caller: &Caller<WriteInvites>, now: Time) -> bool {
        self.is_expired(now) || self.level <= caller.level || self.may_be_revoked_by(caller).is_ok()
    }

    fn may_be_revoked_by(&self, caller: &Caller<WriteInvites>) -> Result<()> {
        let is_sender = self.created_by.as_ref().is_some_and(|user| user.id == caller.user);
        if is_sender || caller.level >= Level::Admin {
            return Ok(());
        }
        Err(Error::Forbidden(
            "Only administrators and the sender can revoke an invite.".to_owned(),
        ))
    }
}

/// Nobody invites above themselves.
fn may_invite(own: Level, level: Level) -> Result<()> {
    if level <= own {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "Your role ({own}) does not allow inviting someone as {level}."
    )))
}

/// The address as it is kept: as it is compared.
fn target(text: &str) -> Result<Email, Invalid> {
    let kept = Email::new(text).and_then(|email| Email::new(&email.key()));
    kept.map_err(|invalid| Invalid {
        field: Some("target_email".into()),
        ..invalid
    })
}

impl Recorded for Invite {
    const SCOPE: &'static str = "OrganizationInvite";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.target_email.clone()
    }
}
