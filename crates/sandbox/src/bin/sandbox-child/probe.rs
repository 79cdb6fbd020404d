//! What a broken engine would try, from a process that is confined as the engine's is. For tests.

use std::fs::File;
use std::io::{Error, Read, Result, Write, stdout};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;
use rustix::process::{Pid, Resource, Rlimit, Signal, Uid, kill_process, prlimit};
use rustix::thread::set_thread_uid;
use sandbox::{Confinement, Layer, Limits};

/// `ATTEMPT TARGET LAYER…`: confined by these layers, or by all if none is named, tries something. Writes a line with the
/// layers that hold, and one with how it went.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) {
    let attempt = arguments.next().unwrap_or_default();
    let target = arguments.next().unwrap_or_default();
    let wanted: Vec<String> = arguments.collect();
    let is_left_out = |layer: &Layer| !wanted.is_empty() && !wanted.iter().any(|name| name == layer.name());
    let without: Vec<Layer> = Layer::ALL.into_iter().filter(is_left_out).collect();
    let layers = Confinement::default().without(&without).apply(&Limits::default());
    say(&serde_json::to_string(&layers).unwrap_or_default());
    match tried(&attempt, &target) {
        Ok(()) => say("done"),
        Err(error) => say(&format!("refused: {error}")),
    }
}

fn say(line: &str) {
    let mut output = stdout().lock();
    // Whoever does not listen sees no result.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn tried(attempt: &str, target: &str) -> Result<()> {
    match attempt {
        "open" => File::open(target).map(drop),
        "create" => File::create(target).map(drop),
        "connect" => TcpStream::connect(target).map(drop),
        "socket" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "unix socket" => UnixStream::pair().map(drop),
        "exec" => Err(Command::new("/bin/echo").arg("done").exec()),
        "fork" => Command::new("/bin/true").status().map(drop),
        "thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
        "trace" => Ok(ptrace::seize(
            nix::unistd::Pid::from_raw(number(target)?),
            ptrace::Options::empty(),
        )?),
        "environment" => File::open(format!("/proc/{target}/environ"))?
            .read_to_end(&mut Vec::new())
            .map(drop),
        "memory of another" => File::open(format!("/proc/{target}/mem")).map(drop),
        "kill" => Ok(kill_process(process(target)?, Signal::TERM)?),
        "limits of another" => change_limits(target),
        "namespace" => Ok(unshare(CloneFlags::CLONE_NEWUTS)?),
        "become root" => Ok(set_thread_uid(Uid::ROOT)?),
        "descriptors" => inherited(),
        // These are no attempts: they must end as they do without any layer.
        "panic" => panic!("as asked"),
        "abort" => std::process::abort(),
        "overflow" => drop_deeply(target.len()),
        "allocate" => allocate(),
        _ => Err(Error::other("this is no attempt")),
    }
}

fn number(target: &str) -> Result<i32> {
    target.parse().map_err(Error::other)
}

fn process(target: &str) -> Result<Pid> {
    Pid::from_raw(number(target)?).ok_or_else(|| Error::other("no process has this number"))
}

fn change_limits(target: &str) -> Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: None,
    };
    prlimit(Some(process(target)?), Resource::Core, none)?;
    Ok(())
}

/// Done if more is open than input, output, errors and the folder that is looked into.
fn inherited() -> Result<()> {
    match std::fs::read_dir("/proc/self/fd")?.count() {
        0..=4 => Err(Error::other("nothing is inherited")),
        _ => Ok(()),
    }
}

#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn drop_deeply(depth: usize) -> Result<()> {
    let room = std::hint::black_box([depth; 512]);
    drop_deeply(room[0] + 1)?;
    std::hint::black_box(room);
    Ok(())
}

/// As much as there is, and more.
fn allocate() -> Result<()> {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1_u8; 16 << 20]));
    }
}
