//! Landlock, asked for without a single exception. A kernel that knows part of it enforces that part.

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetError, RulesetStatus, Scope,
};

use crate::layers::{Layer, State};

type Restrict = fn() -> State;

/// One ruleset for each, so that each says whether the kernel has it.
pub(super) const LAYERS: [(Layer, Restrict); 3] = [
    (Layer::LandlockFiles, || {
        enforced(Ruleset::default().handle_access(AccessFs::from_all(ABI::V9)))
    }),
    (Layer::LandlockNetwork, || {
        enforced(Ruleset::default().handle_access(AccessNet::from_all(ABI::V9)))
    }),
    (Layer::LandlockScopes, || {
        enforced(Ruleset::default().scope(Scope::from_all(ABI::V9)))
    }),
];

fn enforced(ruleset: Result<Ruleset, RulesetError>) -> State {
    let restricted = ruleset
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    match restricted {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            State::Missing("the kernel does not have it".to_owned())
        }
        restricted => State::of(restricted),
    }
}
