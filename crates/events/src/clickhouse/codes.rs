//! Which of ClickHouse's errors pass.

use crate::Error;

/// Time-outs, memory, too much at once, a node or its keeper away: ClickHouse's codes for what later may not be so.
const RETRYABLE: [u32; 23] = [
    159, 160, 173, 202, 203, 209, 210, 225, 241, 242, 243, 252, 279, 285, 286, 319, 394, 425, 439, 473, 499, 745, 999,
];

/// The code for a statement that took longer than it may.
const TIMED_OUT: u32 = 159;

/// The code for memory: the server's, or what a query may use.
const OUT_OF_MEMORY: u32 = 241;

impl Error {
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: OUT_OF_MEMORY,
                ..
            }
        )
    }

    /// Whether it took too long. It may have been too much at once.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code == TIMED_OUT,
            Self::Unreachable(error) => matches!(error, outbound::HttpError::TooSlow { .. }),
            Self::TooSlow => true,
            _ => false,
        }
    }

    /// Whether the same may work if it is tried again.
    pub fn is_retryable(&self) -> bool {
        match self {
            // 0: the answer is not ClickHouse's own, as from a proxy whose server is away.
            Self::Refused { code, .. } => *code == 0 || RETRYABLE.contains(code),
            Self::Unreachable(error) => !matches!(
                error,
                outbound::HttpError::Refused(_) | outbound::HttpError::Malformed(_)
            ),
            Self::TooSlow | Self::CutOff | Self::Io(_) => true,
            Self::Shared(error) => error.is_retryable(),
            Self::Sqlite(_)
            | Self::Damaged(_)
            | Self::TooLarge
            | Self::EventTooLarge(_)
            | Self::Address(_)
            | Self::Arrow(_)
            | Self::Stopped => false,
        }
    }
}
