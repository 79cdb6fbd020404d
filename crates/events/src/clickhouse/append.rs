//! Events of one team that are stored together, and how much work that is.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::people::changed_values;
use crate::fair_queue::QueueKey;
use crate::persons::Sender;
use crate::{Hold, Incoming, Result, Time, persons, size};

/// Others have their turns between parts of so many events, or of fewer that are more work.
const PART: usize = 5_000;
/// Those who sent little wait noticeably for what is more work than this.
pub(super) const LITTLE_WORK: usize = PART / 2;
/// Whoever waited longer than this has no time left for the rest.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(8);
/// An event whose distinct id is not longer is no more work than others.
const USUAL_ID: usize = 48;
/// For those who are merged all their ids are looked up. That is as much work as so many bytes of ids.
const BYTES_OF_MERGE: usize = 20 * USUAL_ID;
/// To change so many values of persons is as much work as an event.
const VALUES_OF_EVENT: usize = 50;

#[derive(Debug)]
pub(super) struct Append {
    pub team: i64,
    pub events: Vec<Incoming>,
    /// How long they are, about.
    pub bytes: usize,
    /// How much work they are.
    pub weight: usize,
    pub now: Time,
    pub since: Instant,
    pub done: oneshot::Sender<Result<()>>,
    hold: Arc<Hold>,
}

impl Append {
    /// With where to wait until the events are stored.
    pub(super) fn new(
        hold: Arc<Hold>,
        team: i64,
        events: Vec<Incoming>,
        now: Time,
        since: Instant,
    ) -> (Self, oneshot::Receiver<Result<()>>) {
        let (done, answer) = oneshot::channel();
        let append = Self {
            team,
            bytes: events.iter().map(|event| size::text_of_object(&event.properties)).sum(),
            weight: events.iter().map(weight).sum(),
            events,
            now,
            since,
            done,
            hold,
        };
        (append, answer)
    }

    pub(super) fn turn(&self) -> QueueKey {
        self.hold.turn(self.team)
    }

    pub(super) fn sender(&self) -> Sender {
        self.hold.sender(self.team)
    }

    /// Whether it is so much work that those who sent little wait for it noticeably.
    pub(super) fn is_large(&self) -> bool {
        self.weight > LITTLE_WORK
    }

    /// Whether it has waited for too long.
    pub(super) fn is_late(&self) -> bool {
        self.since.elapsed() >= MAX_WAIT
    }
}

/// Events in pieces, each of which is stored as one.
pub(super) fn parts(events: Vec<Incoming>) -> impl Iterator<Item = Vec<Incoming>> {
    let mut left = events.into_iter();
    iter::from_fn(move || {
        let (mut part, mut size) = (Vec::new(), 0);
        while size < PART
            && let Some(event) = left.next()
        {
            size += weight(&event);
            part.push(event);
        }
        (!part.is_empty()).then_some(part)
    })
}

/// How much work an event is: most of it is to look up whom it is about, unless it changes many values.
fn weight(event: &Incoming) -> usize {
    let merged = persons::merge(event).map_or(0, |merge| merge.distinct_id.len() + BYTES_OF_MERGE);
    1 + (event.distinct_id.len() + merged) / (USUAL_ID + 1) + changed_values(event) / VALUES_OF_EVENT
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn event(name: &str, distinct_id: String, properties: &Value) -> Incoming {
        Incoming {
            uuid: None,
            event: name.to_owned(),
            distinct_id,
            properties: properties.as_object().map_or_else(Map::new, Clone::clone),
            timestamp: Time::UNIX_EPOCH,
        }
    }

    fn sizes(events: &[Incoming]) -> Vec<usize> {
        parts(events.to_vec()).map(|part| part.len()).collect()
    }

    #[test]
    fn a_large_append_is_stored_in_parts_by_how_much_is_looked_up() {
        let usual: Vec<_> = (0..25_000)
            .map(|n| event("x", format!("{n:036}"), &json!({})))
            .collect();
        assert_eq!(sizes(&usual), [5_000; 5]);
        let long = vec![event("x", "\u{1f600}".repeat(196), &json!({})); 1_000];
        assert_eq!(sizes(&long), [295, 295, 295, 115]);
        let merges = vec![event("$create_alias", "ada".to_owned(), &json!({"alias": "lovelace"})); 1_000];
        assert_eq!(sizes(&merges), [250, 250, 250, 250]);
        let joined: Vec<_> = parts(usual.clone()).flatten().collect();
        assert_eq!(joined, usual);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn few_events_that_change_many_values_are_much_work() {
        let values: Map<String, Value> = (0..9_990).map(|n| (format!("{n:x}"), json!(1))).collect();
        let names: Vec<&String> = values.keys().collect();
        for properties in [
            json!({"$set": values}),
            json!({"$set_once": {"a": values}}),
            json!({"$unset": names}),
        ] {
            let events = vec![event("x", "ada".to_owned(), &properties); 60];
            assert_eq!(sizes(&events), [25, 25, 10]);
            let few = events[..13].to_vec();
            let (append, _) = Append::new(Arc::new(Hold::default()), 1, few, Time::UNIX_EPOCH, Instant::now());
            assert!(append.is_large());
        }
        let usual = vec![event("x", "ada".to_owned(), &json!({"$set": {"a": 1}, "$set_once": {"b": 2}})); 60];
        assert_eq!(usual.iter().map(weight).sum::<usize>(), 60);
    }
}
