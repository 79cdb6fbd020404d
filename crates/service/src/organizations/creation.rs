use super::{NewOrganization, NewlyCreated, Organization, PLUGINS_ROOT, Seen, slug, sql};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::level::Level;
use crate::members;
use crate::teams;
use crate::text::Name;
use crate::transaction::WriteTx;
use crate::users::Person;

/// After this many taken slugs something other than bad luck is at work.
const SLUG_TRIES: usize = 10;

/// Makes an organization inside a larger use case.
pub(crate) async fn create(
    db: &mut WriteTx,
    new: &NewOrganization,
    owner: &Person,
    created_by: Option<UserId>,
    is_limited: bool,
) -> Result<(Seen, Vec<Entry>)> {
    let organization = fresh(db, new);
    let name = Name::new(teams::DEFAULT_NAME).expect("the default name is a name");
    let team = teams::cases::fresh(db, organization.id, name);
    let mut created = NewlyCreated {
        organization,
        team,
        owner,
        creator: created_by,
        is_limited,
    };
    let joined = create_with_free_slug(db, &mut created).await?;
    let NewlyCreated {
        mut organization, team, ..
    } = created;
    organization.member_count = 1;
    let entries = vec![Entry::created(&organization), Entry::created(&team), joined];
    Ok((
        Seen {
            organization,
            level: Level::Owner,
            teams: vec![team],
        },
        entries,
    ))
}

fn fresh(db: &WriteTx, new: &NewOrganization) -> Organization {
    Organization {
        id: OrganizationId(db.uuid()),
        name: new.name.clone(),
        slug: slug::slug(new.name.as_str()),
        plugins_access_level: PLUGINS_ROOT,
        is_member_join_email_enabled: new.is_member_join_email_enabled.unwrap_or(true),
        enforce_2fa: new.enforce_2fa.unwrap_or(false),
        metadata: "{}".to_owned(),
        customer_id: None,
        member_count: 0,
        created_at: db.now,
        updated_at: db.now,
    }
}

async fn create_with_free_slug(db: &mut WriteTx, new: &mut NewlyCreated<'_>) -> Result<Entry> {
    let plain = new.organization.slug.clone();
    for _ in 0..SLUG_TRIES {
        let limited = new.creator.filter(|_| new.is_limited);
        if let Some(joined) = members::create_with_owner(db, new).await? {
            return match limited {
                Some(creator) if !sql::has_room_beside_others(db, creator).await? => Err(too_many()),
                _ => Ok(joined),
            };
        }
        if let Some(creator) = limited
            && !sql::has_room_for_another(db, creator).await?
        {
            return Err(too_many());
        }
        new.organization.slug = slug::slug_with_suffix(&plain, &db.random);
    }
    Err(Error::Conflict {
        code: "conflict",
        detail: format!("No unused slug found for {plain}. Try another name."),
    })
}

/// Organizations take turns at whatever there is little of, so nobody has any number of them.
fn too_many() -> Error {
    let detail = format!(
        "A user can have created at most {} organizations. Delete one that is not needed, or ask an operator of the \
         instance, for whom there is no limit.",
        sql::MAX_CREATED
    );
    Error::Forbidden(detail)
}
