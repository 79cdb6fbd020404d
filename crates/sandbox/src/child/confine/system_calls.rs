//! The few system calls that are left: to read and write the pipe, for memory, for time, and to end.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whatever their arguments are.
const FREE: [i64; 18] = [
    // memory
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // time and random numbers
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // waiting
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // what a panic, an abort and an overflowing stack need to say so
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    // the end
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Opening fails instead of ending the process: the C library looks for time zones and settings, and does without.
#[cfg(target_arch = "x86_64")]
const REFUSED: [i64; 2] = [libc::SYS_openat, libc::SYS_open];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED: [i64; 1] = [libc::SYS_openat];

/// The same for giving memory a name, which the allocator does wherever it can.
const NAMING: i32 = libc::PR_SET_VMA;

/// From here on any other system call ends the process.
pub(super) fn allow_few() -> seccompiler::Result<()> {
    let mut refused: Rules = REFUSED.into_iter().map(|number| (number, Vec::new())).collect();
    refused.insert(libc::SYS_prctl, vec![naming()?]);
    let access = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let refusing = compiled(refused, SeccompAction::Allow, access)?;
    let allowing = compiled(allowed()?, SeccompAction::KillProcess, SeccompAction::Allow)?;
    // Of two filters the stricter answer counts. The second cannot be set once the last one holds.
    apply_filter(&refusing)?;
    apply_filter(&allowing)
}

fn compiled(rules: Rules, otherwise: SeccompAction, then: SeccompAction) -> Result<BpfProgram, BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, then, machine)?.try_into()
}

fn allowed() -> Result<Rules, BackendError> {
    let free = FREE.into_iter().chain(REFUSED).map(|number| (number, Vec::new()));
    let mut rules: Rules = free.collect();
    let executable = libc::PROT_EXEC.unsigned_abs().into();
    let masked = SeccompCmpOp::MaskedEq(executable);
    let not_executable = SeccompCondition::new(2, SeccompCmpArgLen::Dword, masked, 0)?;
    rules.insert(libc::SYS_read, vec![rule([equal(0, 0)?])?]);
    rules.insert(libc::SYS_write, vec![rule([equal(0, 1)?])?, rule([equal(0, 2)?])?]);
    rules.insert(libc::SYS_mmap, vec![rule([not_executable.clone()])?]);
    rules.insert(libc::SYS_mprotect, vec![rule([not_executable.clone()])?]);
    rules.insert(libc::SYS_prctl, vec![naming()?]);
    // More processor time for the next call, of this process alone.
    let processor = rule([equal(0, 0)?, equal(1, libc::RLIMIT_CPU.into())?])?;
    rules.insert(libc::SYS_prlimit64, vec![processor]);
    // Aborting is a signal to oneself.
    let oneself = rule([equal(0, std::process::id().into())?])?;
    rules.insert(libc::SYS_tgkill, vec![oneself]);
    Ok(rules)
}

fn naming() -> Result<SeccompRule, BackendError> {
    rule([equal(0, NAMING.unsigned_abs().into())?])
}

/// All of these together.
fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into())
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}
