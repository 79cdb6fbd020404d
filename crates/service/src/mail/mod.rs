//! Mail: written down with the action it tells of, sent after it, tried again until it is through.

mod cases;
pub(crate) mod sql;

pub(crate) use cases::{enqueue, notify, notify_person};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::id::{InviteId, MailId, OrganizationId};
use crate::lease::Backoff;
use crate::limits::Action;

/// What a mail says. How it looks is up to whoever sends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EmailMessage {
    Invite {
        organization: String,
        inviter: String,
        first_name: String,
        message: String,
        link: String,
        expires_at: Time,
    },
    Joined {
        organization: String,
        new_member: String,
    },
    PasswordReset {
        link: String,
        expires_at: Time,
    },
    PasswordChanged {
        address: String,
    },
    RecoveryCodeUsed {
        organization: String,
        owner: String,
        address: String,
        at: Time,
    },
    /// The record that proves a domain is missing.
    DomainLost {
        organization: String,
        domain: String,
        record: String,
        value: String,
        until: Time,
    },
    /// Too many runs failed, one after the other.
    ExportPaused {
        organization: String,
        export: String,
        error: String,
        failures: i64,
    },
    /// An app failed too often for one team, and is no longer run for it.
    AppDisabled {
        organization: String,
        app: String,
        error: String,
    },
    /// The grace is over: the domain has no effect any more.
    DomainUnverified {
        organization: String,
        domain: String,
    },
}

impl EmailMessage {
    fn class(&self) -> MailClass {
        match self {
            Self::PasswordReset { .. } | Self::PasswordChanged { .. } | Self::RecoveryCodeUsed { .. } => {
                MailClass::SignIn
            }
            Self::Invite { .. } => MailClass::Invite,
            Self::Joined { .. }
            | Self::DomainLost { .. }
            | Self::DomainUnverified { .. }
            | Self::ExportPaused { .. }
            | Self::AppDisabled { .. } => MailClass::Notice,
        }
    }

    /// What a notice of this kind is counted as. Invites and resets are counted where somebody asks for them.
    fn limited_as(&self) -> Option<Action> {
        match self {
            Self::PasswordReset { .. } | Self::Invite { .. } => None,
            Self::PasswordChanged { .. } => Some(Action::PasswordNotice),
            Self::RecoveryCodeUsed { .. } => Some(Action::RecoveryNotice),
            Self::Joined { .. } => Some(Action::JoinNotice),
            Self::DomainLost { .. }
            | Self::DomainUnverified { .. }
            | Self::ExportPaused { .. }
            | Self::AppDisabled { .. } => Some(Action::Notice),
        }
    }
}

/// What is sent first when much waits. The other classes have a share, so that none waits for ever: see [`InFlight`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, sqlx::Type)]
#[repr(i64)]
pub enum MailClass {
    /// Somebody waits for it, or has to know immediately.
    SignIn = 0,
    Invite = 1,
    Notice = 2,
}

impl MailClass {
    /// In which order they are looked through for the mail after so many: of eight mails one is an invite before all, and one a
    /// notice, if there are any.
    fn in_order(sent: usize) -> [Self; 3] {
        match sent % 8 {
            3 => [Self::Invite, Self::SignIn, Self::Notice],
            7 => [Self::Notice, Self::Invite, Self::SignIn],
            _ => [Self::SignIn, Self::Invite, Self::Notice],
        }
    }
}

/// An email and whom it goes to.
#[derive(Debug, Clone)]
pub(crate) struct OutboxEntry {
    pub(crate) to: String,
    /// On whose behalf, if it is an organization's.
    pub(crate) organization: Option<OrganizationId>,
    pub(crate) reply_to: Option<String>,
    pub(crate) email: EmailMessage,
    pub(crate) invite: Option<InviteId>,
}

impl OutboxEntry {
    pub(crate) fn new(to: &str, email: EmailMessage) -> Self {
        Self {
            to: to.to_owned(),
            organization: None,
            reply_to: None,
            email,
            invite: None,
        }
    }

    /// Who takes turns with others in the queue.
    fn source(&self) -> String {
        match self.organization {
            Some(organization) => format!("organization {organization}"),
            None => format!("address {}", self.to),
        }
    }
}

/// A mail whose turn it is.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub id: MailId,
    pub to: String,
    pub reply_to: Option<String>,
    pub email: EmailMessage,
    /// The organization or recipient whose turn it is.
    pub source: String,
    /// How often it has been tried, this time included.
    pub attempts: i64,
    pub created_at: Time,
}

/// How many mails one process sends at a time, and how many of these for one source: whose mails are slow to hand over keeps
/// others from nothing.
const MAX_AT_ONCE: usize = 4;
const MAX_OF_SOURCE: usize = 2;
/// The rest is left for resets and the like.
const MAX_OF_OTHERS: usize = 3;

/// What a process is sending at the moment, and how many it has begun to send.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    mails: Vec<(MailClass, String)>,
    started: usize,
}

impl InFlight {
    pub const MAX: usize = MAX_AT_ONCE;

    pub fn start(&mut self, mail: &Outgoing) {
        self.mails.push((mail.email.class(), mail.source.clone()));
        self.started = self.started.wrapping_add(1);
    }

    pub fn end(&mut self, mail: &Outgoing) {
        let ended = |(class, source): &(MailClass, String)| *class == mail.email.class() && *source == mail.source;
        if let Some(place) = self.mails.iter().position(ended) {
            self.mails.swap_remove(place);
        }
    }

    /// Whose turn it is, first.
    fn classes(&self) -> [MailClass; 3] {
        MailClass::in_order(self.started)
    }

    fn has_room_for(&self, class: MailClass) -> bool {
        let is_other = |(class, _): &&(MailClass, String)| *class != MailClass::SignIn;
        let others = self.mails.iter().filter(is_other).count();
        self.mails.len() < MAX_AT_ONCE && (class == MailClass::SignIn || others < MAX_OF_OTHERS)
    }

    /// Those that have as many in progress as one may have. There are two at most; an empty name is nobody's.
    fn busy_sources(&self) -> [&str; MAX_AT_ONCE / MAX_OF_SOURCE] {
        let mut busy = [""; MAX_AT_ONCE / MAX_OF_SOURCE];
        let is_busy = |name: &str| self.mails.iter().filter(|(_, source)| source == name).count() >= MAX_OF_SOURCE;
        for (_, source) in &self.mails {
            if is_busy(source)
                && !busy.contains(&source.as_str())
                && let Some(free) = busy.iter_mut().find(|name| name.is_empty())
            {
                *free = source;
            }
        }
        busy
    }
}

/// Why a mail did not go out.
#[derive(Debug, Clone)]
pub struct Undelivered {
    pub reason: String,
    /// Trying again would not help.
    pub is_permanent: bool,
}

/// For as long as a mail is tried. A mail server may be away for a weekend.
const GIVE_UP_AFTER: TimeDelta = TimeDelta::days(3);
const RETRY: Backoff = Backoff {
    first: TimeDelta::seconds(10),
    factor: 3,
    longest: TimeDelta::minutes(10),
};
/// Whoever takes a mail and is not heard of again has lost it to others after this long. It is not renewed.
const LEASE: TimeDelta = TimeDelta::minutes(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(source: &str, email: EmailMessage) -> Outgoing {
        Outgoing {
            id: MailId(uuid::Uuid::nil()),
            to: String::new(),
            reply_to: None,
            email,
            source: source.to_owned(),
            attempts: 1,
            created_at: Time::default(),
        }
    }

    #[test]
    fn one_source_and_one_class_never_take_all_connections() {
        let joined = EmailMessage::Joined {
            organization: String::new(),
            new_member: String::new(),
        };
        let changed = EmailMessage::PasswordChanged { address: String::new() };
        let mut in_flight = InFlight::default();
        let first = outgoing("one", joined.clone());
        in_flight.start(&first);
        assert_eq!(in_flight.busy_sources(), ["", ""]);
        in_flight.start(&outgoing("one", joined.clone()));
        assert_eq!(in_flight.busy_sources(), ["one", ""]);
        in_flight.start(&outgoing("two", joined));
        assert!(!in_flight.has_room_for(MailClass::Notice) && !in_flight.has_room_for(MailClass::Invite));
        assert!(in_flight.has_room_for(MailClass::SignIn));
        in_flight.start(&outgoing("two", changed));
        assert_eq!(in_flight.busy_sources(), ["one", "two"]);
        assert!(!in_flight.has_room_for(MailClass::SignIn));
        in_flight.end(&first);
        assert_eq!(in_flight.busy_sources(), ["two", ""]);
        assert!(in_flight.has_room_for(MailClass::Notice));
    }

    #[test]
    fn waits_grow_up_to_a_limit() {
        assert_eq!(RETRY.after(1), TimeDelta::seconds(10));
        assert_eq!(RETRY.after(3), TimeDelta::seconds(90));
        assert_eq!(RETRY.after(1000), TimeDelta::minutes(10));
        // A server that is away for an hour is asked often enough.
        let waits: TimeDelta = (1..=12).map(|tries| RETRY.after(tries)).sum();
        assert!(waits > TimeDelta::hours(1) && waits < GIVE_UP_AFTER);
    }
}
