//! Whose turn it is to have a run carried out.
//!
//! A slot waits for a run for a moment only. A run that takes longer gives its slot to the next while it waits for its
//! destination, takes one again before it reads on, and hands it over after each stretch of work. Its organization goes behind
//! those that are quick, for a while. Beside the slots for anybody there is one for those that are not known to be slow, and one for
//! those that are known to be quick. So what one person's organizations make of their time, however many they are, costs the
//! others a moment each.
//!
//! Runs that wait hold memory, so there is room for so many. Where it is used up, one that has had its time is ended as a
//! failure that passes, and is tried again like any other.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use service::OrganizationId;
use service::batch_exports::{Choice, Job};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a run holds a slot in one go, while it waits as well as while it works.
const PATIENCE: Duration = Duration::from_secs(2);
/// A run of more than this is a long one, and the slow ones need not wait for all of those.
const LONG_AFTER: Duration = Duration::from_mins(1);
/// How long an organization counts as quick, slow or long after it was. Exports run every five minutes or less often.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);
/// More than these are not remembered; whoever is not remembered is new.
const MOST_REMEMBERED: usize = 10_000;
/// How many slow runs may be under way for each slot, and how many in all: each holds a part of its rows.
const SLOW_PER_SLOT: usize = 3;
const MOST_SLOW: usize = 32;
/// What a run may take before it is ended for others, twice as long at each further try: every run gets to its end.
const FIRST_STAY: Duration = Duration::from_mins(5);
const LONGEST_STAY: Duration = Duration::from_hours(4);
/// An organization with two runs more than another gives one up that has waited for so long.
const LONG_WAIT: Duration = Duration::from_secs(30);
/// For how long it is remembered that somebody in the database waits for a slot: they are looked for every second.
const SEEN_FOR: Duration = Duration::from_secs(3);

/// How an organization did lately. The first two come first, and take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    Quick,
    /// Nothing is known of it.
    New,
    /// A run of it took longer than [`PATIENCE`].
    Slow,
    Long,
}

/// The runs under way in a process. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when a slot or room for a run may have become free.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Those for anybody. There are two more: one that is not for slow ones, and one that is for quick ones alone.
    slots: usize,
    patience: Duration,
    runs: HashMap<u64, Run>,
    lately: HashMap<OrganizationId, (Line, Instant)>,
    /// Whose turn it was last in each line.
    served: HashMap<Line, OrganizationId>,
    /// The best line in which somebody waited for a slot when the database was last asked.
    seen: Option<(Line, Instant)>,
    /// Whether the last slot for a slow run went to one that was under way already.
    has_resumed: bool,
    next_number: u64,
}

#[derive(Debug)]
struct Run {
    organization: OrganizationId,
    place: String,
    /// Whether its organization is known as quick.
    is_quick: bool,
    is_slow: bool,
    began: Instant,
    /// For how long it is left alone.
    stay: Duration,
    /// Since when it has its slot. None: it has none.
    slot: Option<Instant>,
    /// Since when it waits without one for its destination.
    waits: Option<Instant>,
    /// Its number among those that want a slot again.
    wants: Option<u64>,
    /// Cancelled when it has to make room.
    end: CancellationToken,
}

/// One run under way.
#[derive(Debug)]
pub(crate) struct Slot {
    turns: Turns,
    number: u64,
    end: CancellationToken,
}

impl Turns {
    pub(crate) fn new(slots: usize) -> Self {
        Self::with_patience(slots, PATIENCE)
    }

    fn with_patience(slots: usize, patience: Duration) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State::new(slots, patience)),
            changed: Notify::new(),
        }))
    }

    /// Tells when somebody who could not begin may try again.
    pub(crate) fn changed(&self) -> &Notify {
        &self.0.changed
    }

    /// Whether it is worth asking the database who waits: there is a slot, or one that others take in turns.
    pub(crate) fn may_look(&self) -> bool {
        let state = self.state();
        state.holders() < state.slots + 2 || state.runs.values().any(|run| run.wants.is_some())
    }

    /// Places that have as many runs as they may have: half of the slots.
    pub(crate) fn busy_places(&self) -> Vec<String> {
        let state = self.state();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for run in state.runs.values() {
            *counts.entry(&run.place).or_default() += 1;
        }
        let most = (state.slots / 2).max(1);
        let busy = counts.iter().filter(|(_, count)| **count >= most);
        busy.map(|(place, _)| (*place).to_owned()).collect()
    }

    /// Which of these organizations comes next, of which each has a run waiting. `is_all`: there are no others.
    pub(crate) fn choose(&self, due: &[OrganizationId], is_all: bool) -> Choice {
        let mut state = self.state();
        let before = state.seen.is_some();
        let choice = state.choose(due, is_all, Instant::now());
        let is_gone = before && state.seen.is_none();
        drop(state);
        if is_gone {
            self.0.changed.notify_waiters();
        }
        choice
    }

    pub(crate) fn begin(&self, job: &Job) -> Slot {
        let tries = u32::try_from(job.run.tries).unwrap_or(u32::MAX);
        self.begin_run(job.run.organization_id, &job.run.place, tries)
    }

    fn begin_run(&self, organization: OrganizationId, place: &str, tries: u32) -> Slot {
        let end = CancellationToken::new();
        let number = self
            .state()
            .begin(organization, place, tries, end.clone(), Instant::now());
        Slot {
            turns: self.clone(),
            number,
            end,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(slots: usize, patience: Duration) -> Self {
        Self {
            slots: slots.max(1),
            patience,
            runs: HashMap::new(),
            lately: HashMap::new(),
            served: HashMap::new(),
            seen: None,
            has_resumed: false,
            next_number: 0,
        }
    }

    fn holders(&self) -> usize {
        self.runs.values().filter(|run| run.slot.is_some()).count()
    }

    /// Those that may turn out to be slow, or are.
    fn unknown_holders(&self) -> usize {
        let unknown = |run: &&Run| run.slot.is_some() && (run.is_slow || !run.is_quick);
        self.runs.values().filter(unknown).count()
    }

    fn slow_holders(&self) -> usize {
        let slow = self.runs.values().filter(|run| run.is_slow && run.slot.is_some());
        slow.count()
    }

    /// Those that must make room no longer count.
    fn slow(&self) -> impl Iterator<Item = (u64, &Run)> {
        let counted = |(number, run): (&u64, _)| (*number, run);
        let runs = self.runs.iter().map(counted);
        runs.filter(|(_, run): &(u64, &Run)| run.is_slow && !run.end.is_cancelled())
    }

    fn slow_of(&self, organization: OrganizationId) -> usize {
        self.slow().filter(|(_, run)| run.organization == organization).count()
    }

    fn most_slow(&self) -> usize {
        self.slots
            .saturating_mul(SLOW_PER_SLOT)
            .clamp(4, MOST_SLOW.max(self.slots))
    }

    /// How an organization did lately, and does with what it has under way.
    fn line_of(&self, organization: OrganizationId, now: Instant) -> Line {
        let own = self.runs.values().filter(|run| run.organization == organization);
        let under_way = own.filter(|run| run.is_slow).map(|run| run.line(now)).max();
        let lately = self.lately.get(&organization).filter(|(_, until)| now < *until);
        let lately = lately.map_or(Line::New, |(line, _)| *line);
        under_way.map_or(lately, |line| line.max(lately))
    }

    fn note(&mut self, organization: OrganizationId, line: Line, now: Instant) {
        let before = self.line_of(organization, now);
        if before > line && before >= Line::Slow {
            return;
        }
        if self.lately.len() >= MOST_REMEMBERED {
            self.lately
                .retain(|_, (line, until)| now < *until && *line >= Line::Slow);
        }
        self.lately.insert(organization, (line, now + REMEMBERED_FOR));
    }

    fn choose(&mut self, due: &[OrganizationId], is_all: bool, now: Instant) -> Choice {
        let ranked = due.iter().map(|id| (self.rank(*id, now), *id));
        let (fitting, others): (Vec<_>, Vec<_>) = ranked.partition(|(_, id)| self.fits(*id, now));
        if is_all {
            self.make_room(&others, now);
        }
        let able = || fitting.iter().filter(|(_, id)| self.has_slot(self.line_of(*id, now)));
        let Some(best) = able().map(|(rank, _)| *rank).min() else {
            let waiting = fitting.iter().filter(|(rank, _)| !rank.is_crowded);
            let first = waiting.map(|(rank, _)| rank.line).min();
            self.seen = first.map(|line| (line, now + SEEN_FOR));
            return Choice::Nobody;
        };
        if !is_all && (best.line >= Line::Slow || best.is_crowded) {
            return Choice::AskFurther;
        }
        let after = self.served.get(&best.line).copied();
        let alike = || able().filter(|(rank, _)| *rank == best).map(|(_, id)| *id);
        let next = alike().filter(|id| after.is_none_or(|after| *id > after)).min();
        let Some(organization) = next.or_else(|| alike().min()) else {
            return Choice::Nobody;
        };
        self.served.insert(best.line, organization);
        self.seen = None;
        Choice::Take(organization)
    }

    /// Those that have half of the slots come after all others. Of the slow ones one comes first if none has a slot.
    fn rank(&self, organization: OrganizationId, now: Instant) -> Rank {
        let line = self.line_of(organization, now).max(Line::New);
        let own = |run: &&Run| run.organization == organization && run.slot.is_some();
        let is_crowded = self.runs.values().filter(own).count() >= self.slots.div_ceil(2);
        let is_neglected = line >= Line::Slow && self.slow_holders() == 0;
        Rank {
            is_crowded,
            is_not_neglected: !is_neglected,
            line,
        }
    }

    /// Whether a slot is all that a run of this organization would still need.
    fn fits(&self, organization: OrganizationId, now: Instant) -> bool {
        let own = self.runs.values().filter(|run| run.organization == organization);
        let line = self.line_of(organization, now);
        // Those that have to make room need a moment for it, and quick ones do not wait for that.
        let most = self.most_slow() + self.slots * if line == Line::Quick { 3 } else { 2 } + 2;
        own.count() < self.slots && self.runs.len() < most && (line < Line::Slow || self.has_room(line, now))
    }

    fn has_room(&self, line: Line, now: Instant) -> bool {
        let most = self.most_slow();
        self.slow().count() < most && (line != Line::Long || self.long(now) < most / 2)
    }

    fn long(&self, now: Instant) -> usize {
        self.slow().filter(|(_, run)| run.line(now) == Line::Long).count()
    }

    /// Runs that are under way and want their slot again, and slow ones that wait in the database, take turns.
    fn has_slot(&self, line: Line) -> bool {
        let somebody_wants = self.runs.values().any(|run| run.wants.is_some());
        let is_neglected = somebody_wants && self.slow_holders() == 0;
        self.is_free(line)
            && match line {
                Line::Quick | Line::New => !is_neglected || self.holders() <= self.slots,
                Line::Slow | Line::Long => self.has_resumed || !somebody_wants,
            }
    }

    fn is_free(&self, line: Line) -> bool {
        let has_any = self.holders() < self.slots + 2;
        let has_unknown = self.unknown_holders() <= self.slots;
        match line {
            Line::Quick => has_any,
            Line::New => has_any && has_unknown,
            Line::Slow | Line::Long => has_any && has_unknown && self.slow_holders() < self.slots,
        }
    }

    fn begin(
        &mut self,
        organization: OrganizationId,
        place: &str,
        tries: u32,
        end: CancellationToken,
        now: Instant,
    ) -> u64 {
        let line = self.line_of(organization, now);
        let (is_quick, is_slow) = (line == Line::Quick, line >= Line::Slow);
        self.has_resumed &= !is_slow;
        let doublings = tries.clamp(1, 10) - 1;
        let run = Run {
            organization,
            place: place.to_owned(),
            is_quick,
            is_slow,
            began: now,
            stay: (FIRST_STAY * 2_u32.pow(doublings)).min(LONGEST_STAY),
            slot: Some(now),
            waits: None,
            wants: None,
            end,
        };
        let number = self.number();
        self.runs.insert(number, run);
        number
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Its time in the slot is over: from now on it is a slow one.
    fn is_late(&mut self, number: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let was_slow = std::mem::replace(&mut run.is_slow, true);
        let (organization, line) = (run.organization, run.line(now));
        self.note(organization, line, now);
        if !was_slow && self.slow().count() > self.most_slow() {
            let other = self.to_end(organization, line, now);
            self.end(other.unwrap_or(number));
        }
    }

    /// For those that wait in the database and find no room.
    fn make_room(&self, waiting: &[(Rank, OrganizationId)], now: Instant) {
        let ending = self.runs.values().filter(|run| run.end.is_cancelled()).count();
        let needs_room = |(rank, id): &&(Rank, OrganizationId)| {
            rank.line >= Line::Slow && !self.has_room(rank.line, now) && self.slow_of(*id) == 0
        };
        let next = waiting.iter().filter(needs_room).min();
        if let Some((rank, organization)) = next
            && ending < self.slots
            && let Some(other) = self.to_end(*organization, rank.line, now)
        {
            self.end(other);
        }
    }

    /// Who makes room for a run of this organization: of those that have had their time, or whose organization has far more,
    /// one of the organization with the most, and of these the one that has waited longest.
    fn to_end(&self, organization: OrganizationId, line: Line, now: Instant) -> Option<u64> {
        let own = self.slow_of(organization);
        let has_many_long = line < Line::Long && self.long(now) > self.most_slow() / 2;
        let may_end = |run: &Run| {
            let waited = run.waits.map_or(Duration::ZERO, |since| now - since);
            let has_more = self.slow_of(run.organization) >= own + 2;
            let is_short = has_many_long && run.line(now) == Line::Long;
            let stay = if is_short { run.stay / 5 } else { run.stay };
            now - run.began >= stay || (has_more && waited >= LONG_WAIT)
        };
        let others = self.slow().filter(|(_, run)| run.organization != organization);
        let ending = others.filter(|(_, run)| may_end(run));
        let key = |(_, run): &(u64, &Run)| {
            let since = run.waits.unwrap_or(now);
            (self.slow_of(run.organization), Reverse(since), Reverse(run.began))
        };
        ending.max_by_key(key).map(|(number, _)| number)
    }

    fn end(&self, number: u64) {
        if let Some(run) = self.runs.get(&number) {
            run.end.cancel();
        }
    }

    fn slot_ends(&self, number: u64, now: Instant) -> Instant {
        let since = self.runs.get(&number).and_then(|run| run.slot);
        since.unwrap_or(now) + self.patience
    }

    /// Gives the slot back while the run waits for its destination.
    fn step_aside(&mut self, number: u64, now: Instant) {
        self.is_late(number, now);
        if let Some(run) = self.runs.get_mut(&number) {
            (run.slot, run.waits) = (None, Some(now));
        }
    }

    /// Gives the slot back while the run reads, if otherwise the slow ones had all of them.
    fn leave_quick_slot(&mut self, number: u64, now: Instant) {
        self.is_late(number, now);
        if self.slow_holders() > self.slots {
            self.step_aside(number, now);
        }
    }

    /// Lines up for a slot. False: it has one.
    fn want(&mut self, number: u64) -> bool {
        let ticket = self.number();
        match self.runs.get_mut(&number) {
            Some(run) if run.slot.is_none() => {
                (run.waits, run.wants) = (None, Some(ticket));
                true
            }
            _ => false,
        }
    }

    fn try_to_resume(&mut self, number: u64, now: Instant) -> bool {
        if !self.may_resume(number, now) {
            return false;
        }
        self.has_resumed = true;
        if let Some(run) = self.runs.get_mut(&number) {
            (run.slot, run.wants) = (Some(now), None);
        }
        true
    }

    fn leave(&mut self, number: u64, now: Instant) {
        let Some(run) = self.runs.remove(&number) else { return };
        let line = if run.is_slow { run.line(now) } else { Line::Quick };
        // A quick run of an organization that was slow does not make it slow for longer.
        if !run.is_slow || now - run.began >= self.patience {
            self.note(run.organization, line, now);
        }
    }

    fn may_resume(&self, number: u64, now: Instant) -> bool {
        if !self.is_free(Line::Slow) || !self.is_first(number) {
            return false;
        }
        match self.seen.filter(|(_, until)| now < *until) {
            None => true,
            Some((Line::Quick | Line::New, _)) => self.slow_holders() == 0,
            Some((Line::Slow | Line::Long, _)) => !self.has_resumed,
        }
    }

    /// Organizations with fewer slots come first, and then whoever has waited longest.
    fn is_first(&self, number: u64) -> bool {
        let slots_of = |organization| {
            let own = |run: &&Run| run.organization == organization && run.slot.is_some();
            self.runs.values().filter(own).count()
        };
        let wanting = self.runs.iter().filter(|(_, run)| run.wants.is_some());
        let first = wanting.min_by_key(|(_, run)| (slots_of(run.organization), run.wants));
        first.is_some_and(|(first, _)| *first == number)
    }
}

/// Where an organization stands among those that wait; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_crowded: bool,
    is_not_neglected: bool,
    line: Line,
}

impl Run {
    /// Of one that is slow.
    fn line(&self, now: Instant) -> Line {
        if now - self.began >= LONG_AFTER {
            Line::Long
        } else {
            Line::Slow
        }
    }
}

impl Slot {
    /// Ends when others need the room and this run has to go.
    pub(crate) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// Waits for the destination, without a slot if that takes long, and has a slot afterwards.
    pub(crate) async fn sending<T>(&self, work: impl Future<Output = T> + Send) -> T {
        let done = self.finishing(work).await;
        self.resume().await;
        done
    }

    /// The same for the last step: nothing that needs a slot comes after it.
    pub(crate) async fn finishing<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.hand_over().await;
        self.waiting(work).await
    }

    /// The same where there is no time to line up for a slot.
    pub(crate) async fn waiting<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.watched(work, Self::step_aside).await
    }

    /// Reads. That costs processor time: a run that takes long keeps its slot, unless that is the one for quick runs.
    pub(crate) async fn reading<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.hand_over().await;
        let done = self.watched(work, Self::leave_quick_slot).await;
        self.resume().await;
        done
    }

    async fn watched<T>(&self, work: impl Future<Output = T> + Send, late: fn(&Self)) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(self.slot_ends()) => late(self),
        }
        work.await
    }

    fn slot_ends(&self) -> Instant {
        self.turns.state().slot_ends(self.number, Instant::now())
    }

    fn step_aside(&self) {
        self.turns.state().step_aside(self.number, Instant::now());
        self.turns.0.changed.notify_waiters();
    }

    fn leave_quick_slot(&self) {
        self.turns.state().leave_quick_slot(self.number, Instant::now());
        self.turns.0.changed.notify_waiters();
    }

    /// Whoever has had a slot for long enough lines up again.
    async fn hand_over(&self) {
        if Instant::now() >= self.slot_ends() {
            self.step_aside();
            self.resume().await;
        }
    }

    /// Waits for a slot, unless there is one already.
    async fn resume(&self) {
        if !self.turns.state().want(self.number) {
            return;
        }
        let _wanting = Wanting(self);
        loop {
            let mut changed = pin!(self.turns.0.changed.notified());
            changed.as_mut().enable();
            if self.turns.state().try_to_resume(self.number, Instant::now()) {
                return;
            }
            // What was seen in the database may have become old.
            let _ = tokio::time::timeout(SEEN_FOR, changed).await;
        }
    }
}

/// A run in line for a slot, until it has one or no longer wants it.
struct Wanting<'a>(&'a Slot);

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        let turn = self.0;
        if let Some(run) = turn.turns.state().runs.get_mut(&turn.number) {
            run.wants = None;
        }
        turn.turns.0.changed.notify_waiters();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.turns.state().leave(self.number, Instant::now());
        self.turns.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
