//! The hosts that a running app asked for, until they are written down where its organization sees them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Names can be made up without end. So many are remembered of those that were allowed, and of those that were not.
const MOST_ASKED: usize = 200;
/// How long a host that was written down is not written down again.
const NOTED_FOR: Duration = Duration::from_mins(10);

#[derive(Debug, Default)]
pub(crate) struct AskedHosts(Mutex<HashMap<String, State>>);

#[derive(Debug)]
struct State {
    is_allowed: bool,
    asked_at: Instant,
    /// When it was written down; none: not yet.
    noted_at: Option<Instant>,
}

impl AskedHosts {
    pub(crate) fn add(&self, host: &str, is_allowed: bool) {
        let (mut asked, now) = (self.lock(), Instant::now());
        if let Some(known) = asked.get_mut(host) {
            known.asked_at = now;
            return;
        }
        let of_this_kind = || asked.iter().filter(|(_, one)| one.is_allowed == is_allowed);
        if of_this_kind().count() >= MOST_ASKED {
            // Of hosts that are reached the latest are shown. Of others only those give way that are written down.
            let replaceable = of_this_kind().filter(|(_, one)| is_allowed || one.noted_at.is_some());
            let oldest = replaceable
                .min_by_key(|(_, one)| one.asked_at)
                .map(|(host, _)| host.clone());
            let Some(oldest) = oldest else { return };
            asked.remove(&oldest);
        }
        let state = State {
            is_allowed,
            asked_at: now,
            noted_at: None,
        };
        asked.insert(host.to_owned(), state);
    }

    /// What has not been written down yet, or not for a while, and whether it was allowed.
    pub(crate) fn to_note(&self) -> Vec<(String, bool)> {
        let asked = self.lock();
        let is_due = |one: &State| one.noted_at.is_none_or(|at| at.elapsed() > NOTED_FOR);
        let due = asked.iter().filter(|(_, one)| is_due(one));
        due.map(|(host, one)| (host.clone(), one.is_allowed)).collect()
    }

    /// They are written down now.
    pub(crate) fn set_noted(&self, hosts: &[(String, bool)]) {
        let mut asked = self.lock();
        for (host, _) in hosts {
            if let Some(one) = asked.get_mut(host) {
                one.noted_at = Some(Instant::now());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &AskedHosts) -> Vec<String> {
        hosts.to_note().into_iter().map(|(host, _)| host).collect()
    }

    /// Or an app could ask for so many names first that the one it sends data to is not among them.
    #[test]
    fn made_up_names_do_not_hide_those_that_are_reached() {
        let hosts = AskedHosts::default();
        for number in 0..2 * MOST_ASKED {
            hosts.add(&format!("{number}.example.com"), true);
        }
        hosts.add("real.example.com", true);
        let names = names(&hosts);
        assert!(names.len() == MOST_ASKED && names.contains(&"real.example.com".to_owned()));
    }

    #[test]
    fn refused_names_take_nothing_from_allowed_ones_and_give_way_once_written_down() {
        let hosts = AskedHosts::default();
        for number in 0..=MOST_ASKED {
            hosts.add(&format!("{number}.example.com"), false);
        }
        hosts.add("real.example.com", true);
        let first = hosts.to_note();
        assert_eq!(first.len(), MOST_ASKED + 1);
        assert_eq!(hosts.to_note().len(), first.len(), "they are not written down yet");
        hosts.set_noted(&first);
        hosts.add("late.example.com", false);
        assert_eq!(names(&hosts), ["late.example.com"]);
    }
}
