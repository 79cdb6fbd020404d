//! What stays as long as events wait to be stored, and whose turn they take.

use std::fmt;
use std::net::IpAddr;

use crate::fair_queue::{Owner, Source, Turn};
use crate::persons::Sender;

/// What is kept as long as events are in memory, such as what was reserved for them: whoever sent them may go before they are stored.
#[derive(Debug, Default)]
pub struct Hold {
    _held: Option<Box<dyn fmt::Debug + Send + Sync>>,
    /// Who takes the turn at writing, if that is not the team.
    organization: Option<u128>,
    /// The subnet it came from, if it came from outside.
    source: Option<IpAddr>,
}

impl Hold {
    pub fn of(held: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self {
            _held: Some(Box::new(held)),
            ..Self::default()
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

    pub(crate) fn turn(&self, team: i64) -> Turn {
        Turn {
            source: self.source.map_or(Source::Inside, Source::Subnet),
            owner: self.organization.map_or(Owner::Team(team), Owner::Organization),
        }
    }
}
