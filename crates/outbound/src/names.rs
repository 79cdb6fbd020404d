//! Looking up names: the system's own way, so that `/etc/hosts`, search domains and the operator's other settings hold.
//!
//! It takes a thread until it ends, and a name server that says nothing keeps it for many seconds, whether or not anybody
//! still waits. The whole process shares its threads, so only a few are for look-ups.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How many look-ups one dialer has in progress: most of the slots are for callers that have no other.
const FIRST_ONES: usize = 96;
const FURTHER_ONES: usize = 32;
/// How many of them one caller has.
const OF_CALLER: usize = 4;
/// For a thread: it takes moments, unless the name servers are silent.
const WAIT: Duration = Duration::from_secs(3);

/// Turns names into addresses.
#[async_trait::async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// The same for one caller, if callers are told from each other.
    fn of(&self, _caller: u128) -> Option<Arc<dyn Resolve>> {
        None
    }
}

type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

/// A caller's own slot, and one of those that all callers share.
type LookupSlots = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

#[derive(Clone)]
pub(crate) struct SystemNames {
    look_up: LookUp,
    first_ones: Arc<Semaphore>,
    further_ones: Arc<Semaphore>,
    callers: Arc<Mutex<HashMap<u128, Caller>>>,
    /// If it is known.
    caller: Option<Caller>,
}

#[derive(Clone)]
struct Caller {
    first: Arc<Semaphore>,
    further: Arc<Semaphore>,
}

impl Caller {
    fn new() -> Self {
        Self {
            first: Arc::new(Semaphore::new(1)),
            further: Arc::new(Semaphore::new(OF_CALLER - 1)),
        }
    }

    /// Permits count as uses: whoever has look-ups in progress stays.
    fn is_used(&self) -> bool {
        [&self.first, &self.further]
            .into_iter()
            .any(|own| Arc::strong_count(own) > 1)
    }
}

impl SystemNames {
    pub(crate) fn new() -> Self {
        Self::by(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }

    fn by(look_up: LookUp) -> Self {
        Self {
            look_up,
            first_ones: Arc::new(Semaphore::new(FIRST_ONES)),
            further_ones: Arc::new(Semaphore::new(FURTHER_ONES)),
            callers: Arc::default(),
            caller: None,
        }
    }

    fn of_caller(&self, caller: u128) -> Self {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, caller| caller.is_used());
        let caller = callers.entry(caller).or_insert_with(Caller::new).clone();
        Self {
            caller: Some(caller),
            ..self.clone()
        }
    }

    /// Silent name servers of a few callers shall not keep the others from looking up a single name.
    async fn slots(&self) -> Result<LookupSlots, AcquireError> {
        let Some(caller) = &self.caller else {
            return Ok((None, self.first_ones.clone().acquire_owned().await?));
        };
        tokio::select! {
            biased;
            slots = slots_of(&caller.first, &self.first_ones) => slots,
            slots = slots_of(&caller.further, &self.further_ones) => slots,
        }
    }
}

async fn slots_of(own: &Arc<Semaphore>, shared: &Arc<Semaphore>) -> Result<LookupSlots, AcquireError> {
    let own = own.clone().acquire_owned().await?;
    Ok((Some(own), shared.clone().acquire_owned().await?))
}

#[async_trait::async_trait]
impl Resolve for SystemNames {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let slots = timeout(WAIT, self.slots()).await?.map_err(io::Error::other)?;
        let (look_up, name) = (self.look_up, name.to_owned());
        let looking_up = tokio::task::spawn_blocking(move || {
            let found = look_up(&name);
            // Held by the thread: whoever asked may have gone long ago.
            drop(slots);
            found
        });
        looking_up.await.map_err(io::Error::other)?
    }

    fn of(&self, caller: u128) -> Option<Arc<dyn Resolve>> {
        Some(Arc::new(self.of_caller(caller)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
    static IS_SILENT: Mutex<()> = Mutex::new(());

    /// Answers names that begin with `fast`, and says nothing to others for as long as the lock is held.
    fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
        if name.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !name.starts_with("fast") {
            UNDER_WAY.fetch_add(1, Ordering::SeqCst);
            drop(IS_SILENT.lock());
            UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(vec![[192, 0, 2, 1].into()])
    }

    /// A thread that was started may not have begun to count yet.
    async fn has_under_way(expected: usize) {
        let settled = async {
            while UNDER_WAY.load(Ordering::SeqCst) != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(Duration::from_secs(10), settled).await;
        assert_eq!(UNDER_WAY.load(Ordering::SeqCst), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn silent_name_servers_take_few_threads_and_of_one_caller_fewer() {
        let names = SystemNames::by(look_up);
        let ask = async |names: Arc<dyn Resolve>, times: usize| {
            let mut asked = tokio::task::JoinSet::new();
            for _ in 0..times {
                let names = names.clone();
                asked.spawn(async move {
                    // Nobody waits for the answer.
                    let _ = timeout(Duration::from_millis(50), names.resolve("slow")).await;
                });
            }
            asked.join_all().await;
        };
        let silence = std::thread::spawn(|| {
            let _silence = IS_SILENT.lock().unwrap();
            std::thread::park_timeout(Duration::from_mins(1));
        });
        while IS_SILENT.try_lock().is_ok() {}
        for _ in 0..20 {
            ask(names.of(1).unwrap(), 10).await;
        }
        has_under_way(OF_CALLER).await;
        assert_eq!(
            names.of(1).unwrap().resolve("fast").await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        names.of(2).unwrap().resolve("fast").await.unwrap();
        for caller in 0..40 {
            ask(names.of(caller).unwrap(), 10).await;
        }
        has_under_way(40 + FURTHER_ONES).await;
        names.of(50).unwrap().resolve("fast").await.unwrap();
        names.resolve("fast").await.unwrap();
        ask(Arc::new(names.clone()), 100).await;
        has_under_way(FIRST_ONES + FURTHER_ONES).await;
        silence.thread().unpark();
        silence.join().unwrap();
        names.of(1).unwrap().resolve("fast").await.unwrap();
    }
    #[tokio::test]
    async fn a_caller_whose_first_look_up_ended_has_that_slot_again() {
        let names = SystemNames::by(look_up);
        let caller = names.of_caller(1);
        let first = caller.slots().await.unwrap();
        let _second = caller.slots().await.unwrap();
        let rest = u32::try_from(FURTHER_ONES - 1).unwrap();
        let _rest = names.further_ones.try_acquire_many(rest).unwrap();
        drop(first);
        let again = timeout(Duration::from_secs(1), caller.slots()).await;
        assert!(again.is_ok());
    }
}
