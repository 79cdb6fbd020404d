//! What the system is told to keep from this process, whatever it comes to run.

use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::Limits;

/// Room beside the heap of the engine: the parser's trees, lines of the pipe, our own.
const ROOM_BESIDE: u64 = 192 * 1024 * 1024;

/// What is mapped already, if it cannot be found out.
const MAPPED: u64 = 512 * 1024 * 1024;

/// Takes from this process what it does not need. What cannot be taken stays: the parent has its own means.
pub(crate) fn confine(limits: &Limits, time: Duration) {
    let memory = mapped().unwrap_or(MAPPED) + 2 * limits.memory as u64 + ROOM_BESIDE;
    limit(Resource::As, memory);
    limit(Resource::Core, 0);
    limit(Resource::Fsize, 0);
    limit(Resource::Nproc, 0);
    limit(Resource::Memlock, 0);
    // Only those that are open: input, output, errors.
    limit(Resource::Nofile, 3);
    allow_processor(time);
}

/// Allows so much more processor time. This ends a child that spins in native code after its parent died.
pub(crate) fn allow_processor(time: Duration) {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let soft = used + time.as_secs() + 2;
    let maximum = getrlimit(Resource::Cpu).maximum;
    let _ = setrlimit(
        Resource::Cpu,
        Rlimit {
            current: Some(soft),
            maximum,
        },
    );
}

fn limit(resource: Resource, most: u64) {
    let most = getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
    let _ = setrlimit(
        resource,
        Rlimit {
            current: Some(most),
            maximum: Some(most),
        },
    );
}

/// The address space in use, in bytes.
fn mapped() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').next()?.parse().ok()?;
    Some(pages * page_size() as u64)
}
