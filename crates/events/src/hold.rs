//! What stays as long as events wait to be stored, and whose turn they take.

use std::fmt;
use std::net::IpAddr;

use crate::fair_queue::{Owner, QueueKey, Source};
use crate::persons::Sender;

/// What was reserved for events, for as long as they are in memory.
pub trait Held: fmt::Debug + Send + Sync {
    /// From now on the events take no more than this.
    fn shrink_to(&mut self, bytes: usize);
}

/// What is kept as long as events are in memory: whoever sent them may go before they are stored.
#[derive(Debug, Default)]
pub struct Hold {
    held: Option<Box<dyn Held>>,
    /// Who takes the turn at writing, if that is not the team.
    organization: Option<u128>,
    /// The subnet it came from, if it came from outside.
    source: Option<IpAddr>,
}

impl Hold {
    pub fn of(held: impl Held + 'static) -> Self {
        Self {
            held: Some(Box::new(held)),
            ..Self::default()
        }
    }

    /// Events that wait to be stored take less than those that were just read.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            held.shrink_to(bytes);
        }
    }

    /// All teams of an organization share one turn at writing.
    #[must_use]
    pub fn in_turn_of(self, organization: u128) -> Self {
        Self {
            organization: Some(organization),
            ..self
        }
    }

    /// All that comes from one subnet shares one turn at writing, whoever's token it has.
    #[must_use]
    pub fn sent_from(self, subnet: IpAddr) -> Self {
        Self {
            source: Some(subnet),
            ..self
        }
    }

    /// Who sends events of this team.
    pub(crate) fn sender(&self, team: i64) -> Sender {
        (team, self.turn(team).source)
    }

    pub(crate) fn turn(&self, team: i64) -> QueueKey {
        QueueKey {
            source: self.source.map_or(Source::Inside, Source::Subnet),
            owner: self.organization.map_or(Owner::Team(team), Owner::Organization),
        }
    }
}
