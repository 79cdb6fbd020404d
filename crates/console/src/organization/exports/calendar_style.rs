//! How intervals look in the calendar, and how they are told.

use service::batch_exports::{Coverage, Covered};

use crate::show;

/// Color alone must not tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellStyle {
    pub(super) class: &'static str,
    pub(super) mark: &'static str,
    pub(super) word: &'static str,
}

/// The worst first: a day with one gap in it is a day with a gap.
pub(super) const ALL: [Coverage; 6] = [
    Coverage::Failed,
    Coverage::Gap,
    Coverage::InProgress,
    Coverage::Delivered,
    Coverage::NotDue,
    Coverage::NoData,
];

impl CellStyle {
    pub(super) const fn of(coverage: Coverage) -> Self {
        let (class, mark, word) = match coverage {
            Coverage::Delivered => ("cell-delivered", "✓", "delivered"),
            Coverage::Gap => ("cell-gap", "○", "gap"),
            Coverage::Failed => ("cell-failed", "×", "failed"),
            Coverage::InProgress => ("cell-under-way", "…", "running"),
            Coverage::NotDue => ("cell-quiet", "·", "not due"),
            Coverage::NoData => ("cell-quiet", "–", "no data"),
        };
        Self { class, mark, word }
    }
}

/// One word for one interval; for several, how many of each there are.
pub(super) fn summary(part: &[Covered]) -> String {
    let counts = ALL.into_iter().filter_map(|kind| {
        let count = part.iter().filter(|one| one.coverage == kind).count();
        (count > 0).then(|| (kind, i64::try_from(count).unwrap_or(i64::MAX)))
    });
    let told = counts.map(|(kind, count)| match (kind, part.len()) {
        (_, 1) => CellStyle::of(kind).word.to_owned(),
        (Coverage::Gap, _) => show::counted(count, "gap"),
        _ => format!("{count} {}", CellStyle::of(kind).word),
    });
    told.collect::<Vec<_>>().join(", ")
}
