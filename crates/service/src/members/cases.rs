use std::sync::Arc;

use boxed::boxed;

use super::{Joined, Member, MemberFilter, MemberPatch, MemberRef, sql};
use crate::access::{Actor, Caller, ChangeMembers, Principal, ReadMembers, RemoveMembers};
use crate::activity::Entry;
use crate::cache::{CacheKey, Load};
use crate::error::{Error, Result};
use crate::id::{MemberId, OrganizationId, UserUuid};
use crate::level::Level;
use crate::mail::{self, EmailMessage};
use crate::organizations::NewlyCreated;
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::users::{Person, User};
use crate::{Precondition, Service, invites, keys, operators, organizations, sessions, sign_in, sso};

impl Service {
    /// Newest first.
    #[boxed]
    pub async fn members(
        &self,
        caller: &Caller<ReadMembers>,
        filter: &MemberFilter,
        window: Window,
    ) -> Result<Arc<Page<Member>>> {
        let key = CacheKey::Members(caller.organization, filter.clone(), window);
        let load = || -> Load<'_, Page<Member>> {
            Box::pin(async { sql::page(&mut self.core.store.read().await?, caller.organization, filter, window).await })
        };
        self.get_or_load(caller.seen, key, load).await
    }

    #[boxed]
    pub async fn member(&self, caller: &Caller<ReadMembers>, member: MemberRef) -> Result<Member> {
        let user = uuid_of(member, caller);
        let mut db = self.core.store.read().await?;
        let found = sql::find(&mut db, caller.organization, user).await?;
        found.ok_or(Error::NotFound("member"))
    }

    #[boxed]
    pub async fn update_member(
        &self,
        caller: &Caller<ChangeMembers>,
        member: MemberRef,
        patch: &MemberPatch,
        precondition: Precondition<'_, Member>,
    ) -> Result<Member> {
        let mut db = self.write().await?;
        let before = lock(&mut db, caller, member, precondition).await?;
        let mut member = before.clone();
        if let Some(level) = patch.level {
            member.change(level, caller, db.now)?;
        }
        let becomes_owner = before.level < Level::Owner && member.level == Level::Owner;
        if becomes_owner {
            caller.expect_recent_proof(db.now)?;
        }
        if before.level == Level::Owner && member.level < Level::Owner {
            another_owner_remains(&mut db, caller.organization).await?;
        }
        let Some(entry) = Entry::updated(&before, &member) else {
            return Ok(before);
        };
        let got_in = sso::an_owner_gets_in_now(&mut db, caller.organization).await?;
        sql::save(&mut db, &member).await?;
        an_owner_still_gets_in(&mut db, caller.organization, got_in).await?;
        let mut entries = take_back(&mut db, &member, Some(member.level)).await?;
        if becomes_owner {
            sso::forget_owner(&mut db, caller.organization, member.user.id).await?;
            entries.extend(keys::forget_vouched(&mut db, member.user.id, caller.organization).await?);
        }
        entries.push(entry);
        db.commit(&caller.actor, &entries).await?;
        Ok(member)
    }

    /// Ends a membership, and with it every access that rested on it.
    #[boxed]
    pub async fn delete_member(
        &self,
        caller: &Caller<RemoveMembers>,
        member: MemberRef,
        precondition: Precondition<'_, Member>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let member = lock(&mut db, caller, member, precondition).await?;
        member.may_be_removed_by(caller)?;
        if member.level == Level::Owner {
            another_owner_remains(&mut db, caller.organization).await?;
        }
        let got_in = sso::an_owner_gets_in_now(&mut db, caller.organization).await?;
        sql::delete(&mut db, &member).await?;
        an_owner_still_gets_in(&mut db, caller.organization, got_in).await?;
        let mut entries = keys::forget_organization(&mut db, member.user.id, caller.organization).await?;
        sessions::sql::delete_of_user(&mut db, member.user.id).await?;
        entries.extend(take_back(&mut db, &member, None).await?);
        entries.extend(operators::forget(&mut db, &member.user).await?);
        entries.push(Entry::deleted(&member));
        db.commit(&caller.actor, &entries).await
    }

    /// Adds an existing user, for whoever runs the machine.
    #[boxed]
    pub async fn add_member(
        &self,
        actor: &Actor,
        organization: OrganizationId,
        user: &User,
        level: Level,
    ) -> Result<()> {
        let mut db = self.write().await?;
        organizations::sql::lock(&mut db, organization).await?;
        let person = Person::from(user);
        let entry = join(&mut db, self, organization, &person, level, JoinSource::CommandLine).await?;
        db.commit(actor, &[entry]).await
    }
}

/// How somebody comes to be a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinSource {
    CommandLine,
    Invite,
    SingleSignOn,
}

/// The only way into an organization, but for creating it.
pub(crate) async fn join(
    db: &mut WriteTx,
    service: &Service,
    organization: OrganizationId,
    person: &Person,
    level: Level,
    source: JoinSource,
) -> Result<Entry> {
    let id = MemberId(db.uuid());
    sql::insert(db, id, organization, person.id, level).await?;
    if level == Level::Owner {
        // Links outlast a membership that ended. Keys and sessions do not.
        sso::forget_owner(db, organization, person.id).await?;
    }
    if matches!(source, JoinSource::Invite | JoinSource::SingleSignOn) {
        announce(db, service, organization, person).await?;
    }
    Ok(joined(id, organization, person, level))
}

/// Stores a new organization with its first member, who owns it. None: its slug is taken, or they have created too many.
pub(crate) async fn create_with_owner(db: &mut WriteTx, new: &mut NewlyCreated<'_>) -> Result<Option<Entry>> {
    let id = MemberId(db.uuid());
    let is_stored = organizations::sql::insert(db, new, id).await?;
    Ok(is_stored.then(|| joined(id, new.organization.id, new.owner, Level::Owner)))
}

fn joined(id: MemberId, organization: OrganizationId, person: &Person, level: Level) -> Entry {
    Entry::created(&Joined {
        id,
        organization,
        email: &person.email,
        level,
    })
}

/// How many are told of a new member: more would be a mailing list.
const MAX_TOLD: i64 = 100;

/// Tells others who has joined, if the organization wants it and there is a way to: owners and administrators first, and only
/// those whose address is known to be theirs, as anybody can be made a member under any address.
async fn announce(db: &mut WriteTx, service: &Service, id: OrganizationId, new_member: &Person) -> Result<()> {
    let organization = organizations::sql::lock(db, id).await?;
    if !(organization.is_member_join_email_enabled && service.instance().sends_mail) {
        return Ok(());
    }
    let email = EmailMessage::Joined {
        organization: organization.name.to_string(),
        new_member: new_member.email.clone(),
    };
    let others = sql::proven_addresses(db, id, new_member.id, MAX_TOLD).await?;
    mail::notify(db, service.instance(), id, &email, others).await
}

/// Tells every organization that somebody belongs to that the address they were known by is no longer theirs.
pub(crate) async fn address_released(db: &mut WriteTx, user: &User) -> Result<Vec<Entry>> {
    let memberships = sql::of_user(db, user.id).await?;
    let entries = memberships.into_iter().map(|(id, organization, level)| {
        let member = Joined {
            id,
            organization,
            email: &user.email,
            level,
        };
        Entry::happened(&member, "address_released")
    });
    Ok(entries.collect())
}

/// Locks the organization, which is what keeps its members from changing, and finds one of them.
async fn lock<P>(
    db: &mut WriteTx,
    caller: &Caller<P>,
    member: MemberRef,
    precondition: Precondition<'_, Member>,
) -> Result<Member> {
    organizations::sql::lock(db, caller.organization).await?;
    let user = uuid_of(member, caller);
    let member = sql::find(db, caller.organization, user)
        .await?
        .ok_or(Error::NotFound("member"))?;
    if !precondition(&member) {
        return Err(Error::Stale("member"));
    }
    Ok(member)
}

fn uuid_of<P>(member: MemberRef, known: &Principal<P>) -> UserUuid {
    match member {
        MemberRef::Uuid(uuid) => uuid,
        MemberRef::Me => known.person.uuid,
    }
}

/// What somebody of this level, or nobody any more, must not leave behind: invites to more than they may give, and
/// an owner's recovery codes. Otherwise they would let themselves in again.
async fn take_back(db: &mut WriteTx, member: &Member, level: Option<Level>) -> Result<Vec<Entry>> {
    if level < Some(Level::Owner) {
        sign_in::sql::delete_recovery_codes(db, member.organization_id, member.user.id).await?;
    }
    invites::revoke_of(db, member.organization_id, member.user.id, level).await
}

/// Whoever leaves must not be the last owner who could sign in. Where nobody could before, nothing is lost.
async fn an_owner_still_gets_in(db: &mut WriteTx, organization: OrganizationId, got_in: bool) -> Result<()> {
    if !got_in || sso::an_owner_gets_in_now(db, organization).await? {
        return Ok(());
    }
    Err(Error::refused(
        "would_lock_out",
        "No other owner would be able to sign in. Have another owner sign in once first, or have them create \
         recovery codes.",
    ))
}

async fn another_owner_remains(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    if sql::count_owners(db, organization).await? > 1 {
        return Ok(());
    }
    Err(Error::refused(
        "last_owner",
        "An organization must have at least one owner. Make another member an owner first.",
    ))
}
