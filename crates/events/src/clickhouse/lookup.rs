//! What the tables hold of persons, asked for a whole group at once.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::address::Tables;
use super::client::{Client, Statement, identifier, pair};
use super::people::{Id, Name, Owner, People, Person};
use crate::persons::{MAX_PROPERTY_BYTES, NO_PROPERTIES, person_id};
use crate::{Error, Result, Time};

/// How many bytes of properties one question asks for: answers are not longer than 64 MiB, and escaped.
const MAX_ANSWERED: usize = 16 << 20;

/// How many persons are asked for with all their names at once.
const MAX_UNITED: usize = 1_000;

/// How much is read at once: answers have a limit, and others wait in the meantime. Persons past that are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Of properties.
    pub bytes: usize,
    /// Of those who are merged: each may have a thousand, of 200 characters.
    pub names: usize,
}

/// A parameter of a form must stay below the server's limit for a field, which is 128 KiB.
const MAX_LIST: usize = 120 * 1024;

/// A condition on both columns at once finds the rows by the key of each table, or its index.
const THESE_PERSONS: &str =
    "(SELECT each.1, toUUID(each.2) FROM (SELECT arrayJoin({wanted:Array(Tuple(Int64, String))}) AS each))";
const BY_NAME: &str = "(team_id, distinct_id) IN {wanted:Array(Tuple(Int64, String))}";

/// Reads the newest version of everybody who has one of these names, of whichever teams: a question takes ClickHouse some time, however
/// little is asked. Those of `merging` come with all their names. Who is named first is read first.
pub(super) async fn people(
    client: &Client,
    tables: &Tables,
    names: &[Name],
    merging: &HashSet<Name>,
    most: Most,
) -> Result<People> {
    let mut people = People::default();
    let wanted: Vec<String> = names.iter().map(|(team, name)| pair(*team, name)).collect();
    owners(client, tables, BY_NAME, &wanted, &mut people).await?;
    let merged: HashSet<Id> = merging.iter().filter_map(|name| people.owner_of(name)).collect();
    people.names_not_read = all_names(client, tables, merged, most.names, &mut people).await?;
    people.left_out.clone_from(&people.names_not_read);
    let ids = ids_of(names, &people);
    persons(client, tables, &ids, most.bytes, &mut people).await?;
    Ok(people)
}

/// Everybody who has one of these names, or had it, in their order.
fn ids_of(names: &[Name], people: &People) -> Vec<Id> {
    let (mut ids, mut known) = (Vec::new(), HashSet::new());
    for name in names {
        // One who was merged away may come back under the id they had.
        let own = (name.0, person_id(name.0, &name.1));
        let of_name = people.owner_of(name).into_iter().chain([own]);
        ids.extend(of_name.filter(|id| known.insert(*id)));
    }
    ids
}

/// Reads all names of persons, of those who have few of them first, and says of whom it has not read them.
async fn all_names(
    client: &Client,
    tables: &Tables,
    persons: HashSet<Id>,
    most: usize,
    people: &mut People,
) -> Result<HashSet<Id>> {
    let mut left = Vec::from_iter(persons);
    let mut room = most;
    while room > 0 && !left.is_empty() {
        let some = left.split_off(left.len().saturating_sub(MAX_UNITED));
        let condition = format!(
            "(team_id, person_id) IN {THESE_PERSONS} \
             ORDER BY count() OVER (PARTITION BY team_id, person_id), team_id, person_id LIMIT {room}"
        );
        let named = owners(client, tables, &condition, &written(&some), people).await?;
        room -= named.len();
        if room == 0 {
            // Names of the last may be missing, and all of those after it.
            let whole: HashSet<&Id> = named.iter().filter(|id| named.last() != Some(id)).collect();
            left.extend(some.iter().filter(|id| !whole.contains(id)));
        }
    }
    Ok(left.into_iter().collect())
}

fn written<'a>(ids: impl IntoIterator<Item = &'a Id>) -> Vec<String> {
    ids.into_iter().map(|(team, id)| pair(*team, &id.to_string())).collect()
}

/// Reads names, and says whose each of them is.
async fn owners(
    client: &Client,
    tables: &Tables,
    condition: &str,
    wanted: &[String],
    people: &mut People,
) -> Result<Vec<Id>> {
    let mut named = Vec::new();
    let sql = format!(
        "SELECT team_id, distinct_id, toString(person_id), version, toUnixTimestamp64Micro(inserted_at) FROM {} FINAL \
         WHERE {condition} FORMAT JSONCompactEachRow",
        identifier(&tables.distinct_ids)
    );
    for wanted in short(wanted) {
        let rows = client.text(asked(&sql, wanted)).await?;
        for row in rows.lines() {
            let (team, name, person, version, inserted_at): (Number, String, Uuid, Number, Number) = read(row)?;
            let owner = Owner {
                person,
                version: version.0,
                inserted_at: inserted_at.time()?,
            };
            people.owners.insert((team.0, name), owner);
            named.push((team.0, person));
        }
    }
    Ok(named)
}

/// Reads persons, with the properties of as many as are not too much, in this order: whoever's turn it is does not wait for those who have
/// less.
async fn persons(client: &Client, tables: &Tables, ids: &[Id], most_read: usize, people: &mut People) -> Result<()> {
    let mut sizes = HashMap::new();
    for wanted in short(&written(ids)) {
        let sql = select_persons(tables, "''");
        for row in client.text(asked(&sql, wanted)).await?.lines() {
            let (id, person, size) = person(row)?;
            people.persons.insert(id, person);
            sizes.insert(id, size);
        }
    }
    for some in portions(&in_order(ids, &sizes), most_read, people) {
        let mut missing: HashSet<Id> = some.iter().copied().collect();
        for wanted in short(&written(&some)) {
            let sql = select_persons(tables, "properties");
            for row in client.text(asked(&sql, wanted)).await?.lines() {
                let (id, person, _) = person(row)?;
                missing.remove(&id);
                people.persons.insert(id, person);
            }
        }
        // A replica may not know yet what another one has told.
        people.left_out.extend(missing);
    }
    Ok(())
}

fn select_persons(tables: &Tables, properties: &str) -> String {
    format!(
        "SELECT team_id, toString(id), {properties}, is_identified, is_deleted, toUnixTimestamp64Micro(created_at), version, \
         toUnixTimestamp64Micro(inserted_at), property_bytes FROM {} FINAL WHERE (team_id, id) IN {THESE_PERSONS} \
         FORMAT JSONCompactEachRow",
        identifier(&tables.persons)
    )
}

fn in_order(ids: &[Id], sizes: &HashMap<Id, usize>) -> Vec<(usize, Id)> {
    let size_of = |id: &Id| sizes.get(id).map(|size| (*size, *id));
    ids.iter().filter_map(size_of).collect()
}

/// Whose properties are read, each part with one question. Those of others are left out.
fn portions(sizes: &[(usize, Id)], most_read: usize, people: &mut People) -> Vec<Vec<Id>> {
    let (mut portions, mut read, mut of_last) = (Vec::<Vec<Id>>::new(), 0, usize::MAX);
    for &(size, id) in sizes {
        if size > MAX_PROPERTY_BYTES {
            // From before there was a limit. They are not read: they may take all memory.
            people
                .persons
                .entry(id)
                .and_modify(|person| person.properties = NO_PROPERTIES.into());
            continue;
        }
        people.sizes.insert(id, size);
        if read + size > most_read {
            people.left_out.insert(id);
            continue;
        }
        read += size;
        of_last = of_last.saturating_add(size);
        match portions.last_mut() {
            Some(last) if of_last <= MAX_ANSWERED => last.push(id),
            _ => {
                portions.push(vec![id]);
                of_last = size;
            }
        }
    }
    portions
}

/// With how long its properties are.
fn person(row: &str) -> Result<(Id, Person, usize)> {
    let (team, id, properties, is_identified, is_deleted, created_at, version, inserted_at, size): (
        Number,
        Uuid,
        String,
        bool,
        bool,
        Number,
        Number,
        Number,
        Number,
    ) = read(row)?;
    let person = Person {
        properties: properties.into(),
        is_identified,
        is_deleted,
        created_at: created_at.time()?,
        version: version.0,
        inserted_at: inserted_at.time()?,
    };
    Ok(((team.0, id), person, usize::try_from(size.0).unwrap_or(usize::MAX)))
}

fn asked(sql: &str, wanted: &[String]) -> Statement {
    Statement::new(sql)
        .bind_pairs("wanted", wanted)
        .within(std::time::Duration::from_secs(5))
}

/// Pieces of a list that fit into a parameter each.
fn short(items: &[String]) -> impl Iterator<Item = &[String]> {
    let mut size = 0;
    items.chunk_by(move |item, _| {
        size += item.len() + 1;
        let fits = size < MAX_LIST;
        size = if fits { size } else { 0 };
        fits
    })
}

fn read<'a, T: serde::Deserialize<'a>>(row: &'a str) -> Result<T> {
    serde_json::from_str(row).map_err(|_| Error::CutOff)
}

/// Whole numbers of 64 bits come as numbers or, from older servers, as texts.
#[derive(Debug, Clone, Copy)]
struct Number(i64);

impl Number {
    fn time(self) -> Result<Time> {
        Time::from_timestamp_micros(self.0).ok_or(Error::CutOff)
    }
}

impl<'de> serde::Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        number
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not a whole number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_and_lose_nothing() {
        let items = vec!["x".repeat(1000); 500];
        let pieces: Vec<_> = short(&items).collect();
        assert!(pieces.len() > 2);
        assert!(pieces.iter().all(|piece| piece.len() * 1001 <= MAX_LIST + 1001));
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), 500);
    }

    #[test]
    fn whoever_is_named_first_is_read_first() {
        let names: Vec<Name> = ["large", "small", "smaller", "large"]
            .map(|name| (1, name.to_owned()))
            .into();
        let mut people = People::default();
        let ids = ids_of(&names, &people);
        assert_eq!(ids.len(), 3);
        let sizes = HashMap::from([(ids[0], 800), (ids[1], 300), (ids[2], 200)]);
        let portions = portions(&in_order(&ids, &sizes), 1_000, &mut people);
        assert_eq!(portions, [[ids[0], ids[2]]]);
        assert_eq!(people.left_out, HashSet::from([ids[1]]));
        assert_eq!(people.sizes, sizes, "also of those who are left out");
    }
}
