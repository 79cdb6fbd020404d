//! Limits of the system on what this process uses.

use std::io;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::Limits;
use crate::limits::NICE;

/// Room beside the heap of the engine: the parser's trees, lines of the pipe, our own.
const ROOM_BESIDE: u64 = 192 * 1024 * 1024;

/// What is mapped already, if it cannot be found out.
const MAPPED: u64 = 512 * 1024 * 1024;

pub(super) fn limit(limits: &Limits, mapped: Option<u64>) -> io::Result<()> {
    let memory = mapped.unwrap_or(MAPPED) + 2 * limits.memory as u64 + ROOM_BESIDE;
    let most = [
        (Resource::As, memory),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Memlock, 0),
        // Only those that are open: input, output, errors.
        (Resource::Nofile, 3),
    ];
    for (resource, most) in most {
        let most = getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
        set(resource, most, Some(most))?;
    }
    allow_processor(limits.load_time)
}

/// Lets the server, and whatever else runs here, go first: for the processor, and when memory runs out. Without it the
/// limits still hold.
pub(super) fn give_way() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = nice(NICE);
}

/// Allows so much more processor time. This ends a child that spins in native code after its parent died.
pub(crate) fn allow_processor(time: Duration) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let maximum = getrlimit(Resource::Cpu).maximum;
    let soft = used + time.as_secs() + 2;
    set(
        Resource::Cpu,
        maximum.map_or(soft, |maximum| soft.min(maximum)),
        maximum,
    )
}

fn set(resource: Resource, most: u64, maximum: Option<u64>) -> io::Result<()> {
    let current = Some(most);
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// The address space in use, in bytes.
pub(super) fn mapped() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').next()?.parse().ok()?;
    Some(pages * page_size() as u64)
}
