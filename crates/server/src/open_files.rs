//! How many files the process may have open: a connection is one, too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For files, the databases and what is sent elsewhere.
const OTHERS: u64 = 200;
/// More than anything here needs. Where the system has no limit, some programs take long to close what they inherit.
const ENOUGH: u64 = 65_536;
/// However little the system gives.
const LEAST: usize = 20;

/// Raises the limit as far as the system lets us, and says how many connections there is room for, up to `most`.
pub(crate) fn room_for_connections(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let files = raised(&limit);
    let wanted = Rlimit {
        current: Some(files),
        maximum: limit.maximum,
    };
    let files = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => files,
        Err(_) => limit.current.unwrap_or(ENOUGH),
    };
    let room = room(files, most);
    if room < most {
        tracing::warn!(files, connections = room, "the limit of open files is low: raise it");
    }
    room
}

fn raised(limit: &Rlimit) -> u64 {
    let highest = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    limit.current.map_or(highest, |current| current.max(highest))
}

fn room(files: u64, most: usize) -> usize {
    let left = usize::try_from(files.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    left.clamp(LEAST, most.max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_has_room_below_the_limit() {
        let raise = |current, maximum| raised(&Rlimit { current, maximum });
        assert_eq!(raise(Some(1024), Some(4096)), 4096);
        assert_eq!(raise(Some(1024), None), ENOUGH);
        assert_eq!(raise(Some(1_000_000), Some(1_000_000)), 1_000_000, "never lowered");
        assert_eq!(room(1024, 10_000), 824);
        assert_eq!(room(ENOUGH, 10_000), 10_000);
        assert_eq!(room(64, 10_000), LEAST);
    }
}
