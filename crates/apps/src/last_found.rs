//! What was found last, so that nobody is found again and again before somebody else who is equal.

use std::collections::HashSet;

use service::{OrganizationId, Tenant};

use crate::scheduler::Work;

/// Past this many all are forgotten: the alternation starts over.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct LastFound {
    /// Of equals, those behind it come first.
    pub(crate) organization: OrganizationId,
    /// For whom it was a task the last time: their events come first.
    had_a_task: HashSet<OrganizationId>,
}

impl LastFound {
    /// Processes begin at different places, so that they do not all try to take the same.
    pub(crate) fn beginning_at(organization: OrganizationId) -> Self {
        Self {
            organization,
            had_a_task: HashSet::new(),
        }
    }

    pub(crate) fn note(&mut self, tenant: Tenant, work: Work) {
        self.organization = tenant.organization;
        match work {
            Work::Events => drop(self.had_a_task.remove(&tenant.organization)),
            Work::Task => {
                if self.had_a_task.len() >= MAX_REMEMBERED {
                    self.had_a_task.clear();
                }
                self.had_a_task.insert(tenant.organization);
            }
        }
    }

    /// What comes first for an organization that waits for both.
    pub(crate) fn next_of(&self, organization: OrganizationId) -> [Work; 2] {
        if self.had_a_task.contains(&organization) {
            [Work::Events, Work::Task]
        } else {
            [Work::Task, Work::Events]
        }
    }
}
