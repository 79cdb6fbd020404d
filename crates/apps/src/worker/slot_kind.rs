//! What each of the slots in which a process runs apps may do.

/// Of so many slots one is kept for events.
const SLOTS_FOR_EVENTS: usize = 4;

/// What a slot may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Hand over events alone: however long tasks take, and however many there are, they never take all slots.
    Events,
    Any,
}

impl SlotKind {
    /// Of each slot of a process that has so many. One that is alone does both.
    pub(super) fn of(slot: usize, slots: usize) -> Self {
        let reserved = if slots < 2 { 0 } else { slots.div_ceil(SLOTS_FOR_EVENTS) };
        if slot < reserved { Self::Events } else { Self::Any }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_never_have_all_slots_and_always_have_some() {
        for slots in 2..50 {
            let kinds: Vec<SlotKind> = (0..slots).map(|slot| SlotKind::of(slot, slots)).collect();
            assert!(
                kinds.contains(&SlotKind::Events) && kinds.contains(&SlotKind::Any),
                "{slots}"
            );
        }
        assert_eq!(SlotKind::of(0, 1), SlotKind::Any);
        assert_eq!(
            (0..4).filter(|slot| SlotKind::of(*slot, 4) == SlotKind::Events).count(),
            1
        );
    }
}
