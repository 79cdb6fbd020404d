//! How many pages are made at a time.

use service::{FairSemaphore, Permit, Result};

/// How many pages of one organization are read and written at a time. Only a page that is written is counted as an answer, and until then
/// it may be in memory more than once: as rows, as what is shown of them, and as text.
const PAGES_AT_ONCE: usize = 4;

/// Who reads and writes a page now.
#[derive(Debug, Clone)]
pub(crate) struct PageSlots(FairSemaphore);

impl Default for PageSlots {
    fn default() -> Self {
        Self(FairSemaphore::for_each("The server", PAGES_AT_ONCE))
    }
}

impl PageSlots {
    pub(crate) async fn acquire(&self) -> Result<Permit> {
        self.0.acquire().await
    }
}
