//! The hosts that a running app asked for, until they are written down where its organization sees them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An app can make up any number of names, so this many allowed hosts are kept, and as many blocked ones.
const MAX_ASKED: usize = 200;
/// How long a host that was written down is not written down again.
const NOTED_FOR: Duration = Duration::from_mins(10);

#[derive(Debug, Default)]
pub(crate) struct AskedHosts(Mutex<Hosts>);

#[derive(Debug, Default)]
struct Hosts {
    known: HashMap<String, State>,
    /// How many are not in the list any more, or never were.
    lost: usize,
}

#[derive(Debug)]
struct State {
    is_allowed: bool,
    asked_at: Instant,
    /// When it was written down; none: not yet.
    noted_at: Option<Instant>,
}

impl State {
    /// Whether it is to be written down.
    fn is_due(&self) -> bool {
        self.noted_at.is_none_or(|at| at.elapsed() > NOTED_FOR)
    }

    fn asked_since_noted(&self) -> bool {
        self.noted_at.is_none_or(|at| self.asked_at > at)
    }
}

impl AskedHosts {
    pub(crate) fn add(&self, host: &str, is_allowed: bool) {
        let (mut asked, now) = (self.lock(), Instant::now());
        if let Some(known) = asked.known.get_mut(host) {
            known.asked_at = now;
            return;
        }
        let of_this_kind = || asked.known.iter().filter(|(_, one)| one.is_allowed == is_allowed);
        if of_this_kind().count() >= MAX_ASKED {
            // Those first that are written down. Of hosts that are reached the latest are shown.
            let replaceable = of_this_kind().filter(|(_, one)| is_allowed || one.noted_at.is_some());
            let oldest =
                replaceable.min_by_key(|(_, one)| (one.noted_at.is_none(), one.asked_since_noted(), one.asked_at));
            let Some((oldest, is_lost)) = oldest.map(|(host, one)| (host.clone(), one.asked_since_noted())) else {
                asked.lost += 1;
                return;
            };
            asked.lost += usize::from(is_lost);
            asked.known.remove(&oldest);
        }
        let state = State {
            is_allowed,
            asked_at: now,
            noted_at: None,
        };
        asked.known.insert(host.to_owned(), state);
    }

    /// What has not been written down yet, or not for a while, and whether it was allowed. If there is any of it, all others come along that
    /// were asked for since they were written down: new hosts take the place of those that were not asked for the longest.
    pub(crate) fn to_note(&self) -> Vec<(String, bool)> {
        let asked = self.lock();
        if !asked.known.values().any(State::is_due) {
            return Vec::new();
        }
        let due = asked
            .known
            .iter()
            .filter(|(_, one)| one.asked_since_noted() || one.is_due());
        due.map(|(host, one)| (host.clone(), one.is_allowed)).collect()
    }

    /// How many were left out since this was asked last.
    pub(crate) fn take_lost(&self) -> usize {
        std::mem::take(&mut self.lock().lost)
    }

    /// They are written down now, and those are forgotten that gave way to them.
    pub(crate) fn set_noted(&self, hosts: &[(String, bool)], forgotten: &[String]) {
        let mut asked = self.lock();
        for (host, _) in hosts {
            if let Some(one) = asked.known.get_mut(host) {
                one.noted_at = Some(Instant::now());
            }
        }
        for host in forgotten {
            asked.known.remove(host);
        }
        asked.lost += forgotten.len();
    }

    fn lock(&self) -> MutexGuard<'_, Hosts> {
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
        for number in 0..2 * MAX_ASKED {
            hosts.add(&format!("{number}.example.com"), true);
        }
        hosts.add("real.example.com", true);
        let names = names(&hosts);
        assert!(names.len() == MAX_ASKED && names.contains(&"real.example.com".to_owned()));
        let lost = (hosts.take_lost(), hosts.take_lost());
        assert_eq!(lost, (MAX_ASKED + 1, 0), "whoever reads the log is told");
    }

    #[test]
    fn refused_names_take_nothing_from_allowed_ones_and_give_way_once_written_down() {
        let hosts = AskedHosts::default();
        for number in 0..=MAX_ASKED {
            hosts.add(&format!("{number}.example.com"), false);
        }
        hosts.add("real.example.com", true);
        let first = hosts.to_note();
        assert_eq!(first.len(), MAX_ASKED + 1);
        assert_eq!(hosts.to_note().len(), first.len(), "they are not written down yet");
        hosts.set_noted(&first, &[]);
        hosts.add("late.example.com", false);
        assert_eq!(names(&hosts), ["late.example.com"]);
    }

    /// Or one that is in use would look as if it had not been asked for since it was written down first.
    #[test]
    fn with_a_new_host_those_come_that_are_in_use() {
        let hosts = AskedHosts::default();
        hosts.add("used.example.com", true);
        hosts.add("unused.example.com", true);
        hosts.set_noted(&hosts.to_note(), &[]);
        hosts.add("used.example.com", true);
        assert!(hosts.to_note().is_empty(), "it was written down a moment ago");
        hosts.add("new.example.com", true);
        let mut names = names(&hosts);
        names.sort();
        assert_eq!(names, ["new.example.com", "used.example.com"]);
    }

    #[test]
    fn a_host_in_use_gives_way_only_if_the_log_says_so() {
        let hosts = AskedHosts::default();
        hosts.add("used.example.com", true);
        hosts.set_noted(&hosts.to_note(), &[]);
        hosts.add("used.example.com", true);
        for number in 0..MAX_ASKED {
            hosts.add(&format!("{number}.example.com"), true);
        }
        assert_eq!(hosts.take_lost(), 1);
        assert!(!names(&hosts).contains(&"used.example.com".to_owned()));
    }

    #[test]
    fn a_host_that_gave_way_is_written_down_when_it_is_asked_for_again() {
        let hosts = AskedHosts::default();
        hosts.add("old.example.com", true);
        hosts.set_noted(&hosts.to_note(), &["old.example.com".to_owned()]);
        assert_eq!(hosts.take_lost(), 1, "whoever reads the log is told");
        hosts.add("old.example.com", true);
        assert_eq!(names(&hosts), ["old.example.com"]);
    }
}
