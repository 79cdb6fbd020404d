pub(super) mod backfills;
pub(super) mod delivered;
pub(super) mod exports;
pub(super) mod logs;
pub(super) mod runs;
