//! The worst end: no warning, in the middle of everything.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Request;
use crate::home::{Home, KEY, Server};
use crate::on_each;

const WRITERS: usize = 8;
const STORM: Duration = Duration::from_millis(1500);
const PAGE: usize = 100;

on_each! {
    fn whatever_was_acknowledged_survives_a_kill(home: Home) {
        let server = home.start();
        let acknowledged = storm_and_kill(server);
        assert!(acknowledged.len() > WRITERS, "a storm of {} is none", acknowledged.len());

        let server = home.start();
        let there = organizations(&server);
        let lost: Vec<&String> = acknowledged.iter().filter(|id| !there.contains(*id)).collect();
        assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
        for id in &there {
            let reply = server.get(KEY, &format!("/api/organizations/{id}/activity/?scope=Organization"));
            let entries = reply.body["results"].as_array().unwrap_or_else(|| panic!("{reply:?}"));
            let created = entries.iter().filter(|entry| entry["activity"] == "created" && entry["item_id"] == **id);
            assert_eq!((created.count(), entries.len()), (1, 1), "of {id}: {reply:?}");
        }
    }
}

/// Lets everybody write until the server is gone, and returns what they were told is done.
fn storm_and_kill(server: Server) -> HashSet<String> {
    let acknowledged = Mutex::new(HashSet::new());
    let address = server.address;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for number in 0.. {
                    let body = json!({ "name": format!("Storm {writer}-{number}") });
                    let request = Request::new("POST", "/api/organizations/").key(KEY).json(&body);
                    let Ok(reply) = request.send(address) else { return };
                    assert_eq!(reply.status, 201, "{reply:?}");
                    let id = reply.text("/id").to_owned();
                    acknowledged.lock().expect("no writer panics with it").insert(id);
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < STORM {
            std::thread::park_timeout(STORM.saturating_sub(start.elapsed()));
        }
        server.process.signal("KILL");
        let ended = server.process.end();
        assert_eq!(ended.signal, Some(9), "{ended:?}");
    });
    acknowledged.into_inner().expect("no writer panicked with it")
}

/// The ids of all organizations, page by page.
fn organizations(server: &Server) -> HashSet<String> {
    let mut ids = HashSet::new();
    loop {
        let path = format!("/api/organizations/?limit={PAGE}&offset={}", ids.len());
        let reply = server.get(KEY, &path);
        let results = reply.body["results"].as_array().unwrap_or_else(|| panic!("{reply:?}"));
        ids.extend(results.iter().filter_map(|one| one["id"].as_str().map(str::to_owned)));
        if results.len() < PAGE {
            assert_eq!(reply.body["count"], ids.len());
            return ids;
        }
    }
}
