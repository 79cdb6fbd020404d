//! Whose rights this process has: in the end nobody's.

use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{DumpableBehavior, Gid, Uid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::layers::{Layer, State};

/// Who owns nothing: the number that the kernel, too, shows for users it does not know.
const NOBODY: u32 = 65534;

/// Closes whatever the server inherited from whoever started it. What it opened itself is closed already.
pub(super) fn close_descriptors() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let names = open.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let inherited: Vec<i32> = names
        .filter_map(|name| name.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in inherited {
        // The one that the folder was read with is closed by now.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Leaves the server's network, its user and its user namespace, as far as the system lets it.
pub(super) fn leave(wanted: &impl Fn(&Layer) -> bool, note: &mut impl FnMut(Layer, State)) {
    // With root's rights, which are gone afterwards; without them it takes a user namespace.
    let mut network = wanted(&Layer::NetworkNamespace).then(|| unshare(CloneFlags::CLONE_NEWNET));
    if wanted(&Layer::User) {
        note(Layer::User, become_nobody());
    }
    if wanted(&Layer::UserNamespace) {
        let is_network_left = !matches!(network, Some(Err(_)));
        let both = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
        let left = if !is_network_left && unshare(both).is_ok() {
            network = Some(Ok(()));
            Ok(())
        } else {
            unshare(CloneFlags::CLONE_NEWUSER)
        };
        note(Layer::UserNamespace, State::of(left));
    }
    if let Some(outcome) = network {
        note(Layer::NetworkNamespace, State::of(outcome));
    }
    if wanted(&Layer::User) || wanted(&Layer::UserNamespace) {
        drop_capabilities();
    }
}

fn become_nobody() -> State {
    if !geteuid().is_root() {
        return State::NotNeeded;
    }
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let changed = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid));
    State::of(changed)
}

/// Root has them in its own right, others in the user namespace that they made.
fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let _ = clear_ambient_capability_set();
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    );
}

pub(super) fn set_no_new_privileges() -> io::Result<()> {
    // Children are not to look into each other, either.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(set_no_new_privs(true)?)
}
