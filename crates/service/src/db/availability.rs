//! What is known of whether PostgreSQL answers: the heartbeat says so, and whoever waits for an answer listens.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// How long statements in progress may still take when the connection that is listened to was lost, and perhaps theirs.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
struct Availability {
    is_silent: bool,
    /// How often the connection was lost while new ones worked.
    losses: u64,
}

/// For the whole process, which has one database. Nothing is ever missed where nobody listens, as in commands.
static HEARD: LazyLock<watch::Sender<Availability>> = LazyLock::new(watch::Sender::default);

/// Comes back as soon as there is no use in waiting for an answer any longer.
pub(super) async fn silence() {
    let mut heard = HEARD.subscribe();
    let losses = heard.borrow().losses;
    // The sender is never dropped.
    let heard = heard.wait_for(|heard| heard.is_silent || heard.losses != losses).await;
    let is_silent = heard.is_ok_and(|heard| heard.is_silent);
    if !is_silent {
        sleep(GRACE).await;
    }
}

/// Notes whether the database is out of reach. Tells whether that is new.
pub(super) fn note(is_silent: bool) -> bool {
    let tells = |heard: &mut Availability| std::mem::replace(&mut heard.is_silent, is_silent) != is_silent;
    HEARD.send_if_modified(tells)
}

/// Notes that the connection that is listened to was lost while new ones worked.
pub(super) fn note_loss() {
    HEARD.send_modify(|heard| heard.losses += 1);
}
