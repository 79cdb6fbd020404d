//! What the tables hold of persons, asked for a whole group at once.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::address::Tables;
use super::client::{Client, Statement, identifier};
use super::people::{Name, Owner, People, Person};
use crate::persons::{MOST_PROPERTY_BYTES, NO_PROPERTIES};
use crate::{Error, Result, Time};

/// How many bytes of properties are read for a group. Persons past that are left out of what the group does.
const MOST_READ: usize = 96 * 1024 * 1024;
/// The same for one question: answers are not longer than 64 MiB, and escaped.
const MOST_ANSWERED: usize = 16 * 1024 * 1024;

/// How many persons are asked for with all their names at once: each may have a thousand, and answers have a limit.
const MOST_UNITED: usize = 100;

/// A parameter of a form must stay below the server's limit for a field, which is 128 KiB.
const LONGEST_LIST: usize = 64 * 1024;

/// Reads the newest version of everybody who has one of these names. Those of `merging` come with all their names.
pub(super) async fn people(
    client: &Client,
    tables: &Tables,
    names: &HashSet<Name>,
    merging: &HashSet<Name>,
) -> Result<People> {
    let mut people = People::default();
    for (team, names) in by_team(names.iter().map(|(team, name)| (*team, name.as_str()))) {
        owners(client, tables, team, "distinct_id", &names, &mut people).await?;
        let united: HashSet<String> = names
            .iter()
            .filter(|&&name| merging.contains(&(team, name.to_owned())))
            .filter_map(|name| people.owner(team, name).map(|id| id.to_string()))
            .collect();
        let united: Vec<&str> = united.iter().map(String::as_str).collect();
        for united in united.chunks(MOST_UNITED) {
            owners(client, tables, team, "toString(person_id)", united, &mut people).await?;
        }
        let own = names.iter().map(|name| crate::persons::person_id(team, name));
        let ids: HashSet<String> = names
            .iter()
            .filter_map(|name| people.owner(team, name))
            // One who was merged away may come back under the id they had.
            .chain(own)
            .map(|id| id.to_string())
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        persons(client, tables, team, &ids, &mut people).await?;
    }
    Ok(people)
}

fn by_team<'a>(names: impl Iterator<Item = (i64, &'a str)>) -> BTreeMap<i64, Vec<&'a str>> {
    let mut by_team: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for (team, name) in names {
        by_team.entry(team).or_default().push(name);
    }
    by_team
}

async fn owners(
    client: &Client,
    tables: &Tables,
    team: i64,
    column: &str,
    wanted: &[&str],
    people: &mut People,
) -> Result<()> {
    let sql = format!(
        "SELECT distinct_id, toString(person_id), version, toUnixTimestamp64Micro(inserted_at) FROM {} FINAL \
         WHERE team_id = {{team:Int64}} AND {column} IN {{wanted:Array(String)}} FORMAT JSONCompactEachRow",
        identifier(&tables.distinct_ids)
    );
    for wanted in short(wanted) {
        let rows = client.text(asked(&sql, team, wanted)).await?;
        for row in rows.lines() {
            let (name, person, version, inserted_at): (String, Uuid, Number, Number) = read(row)?;
            let owner = Owner {
                person,
                version: version.0,
                inserted_at: inserted_at.time()?,
            };
            people.owners.insert((team, name), owner);
        }
    }
    Ok(())
}

async fn persons(client: &Client, tables: &Tables, team: i64, wanted: &[&str], people: &mut People) -> Result<()> {
    // Properties from before there was a limit are not read: they may take all memory.
    let sql = format!(
        "SELECT toString(id), if(sum(length(kept)) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) \
         > {{room:Int64}}, '', kept), is_identified, is_deleted, toUnixTimestamp64Micro(created_at), version, \
         toUnixTimestamp64Micro(inserted_at) FROM (SELECT *, if(length(properties) > {MOST_PROPERTY_BYTES}, \
         '{NO_PROPERTIES}', properties) AS kept FROM {} FINAL WHERE team_id = {{team:Int64}} AND id IN \
         (SELECT toUUID(arrayJoin({{wanted:Array(String)}})))) FORMAT JSONCompactEachRow",
        identifier(&tables.persons)
    );
    for wanted in short(wanted) {
        let room = MOST_READ.saturating_sub(people.bytes_read).min(MOST_ANSWERED);
        let statement = asked(&sql, team, wanted).bind("room", i64::try_from(room).unwrap_or(i64::MAX));
        let rows = client.text(statement).await?;
        for row in rows.lines() {
            let (id, person) = person(row)?;
            people.bytes_read += person.properties.len();
            people.persons.insert((team, id), person);
        }
    }
    Ok(())
}

fn person(row: &str) -> Result<(Uuid, Person)> {
    let (id, properties, is_identified, is_deleted, created_at, version, inserted_at): (
        Uuid,
        String,
        bool,
        bool,
        Number,
        Number,
        Number,
    ) = read(row)?;
    let person = Person {
        is_left_out: properties.is_empty(),
        properties: properties.into(),
        is_identified,
        is_deleted,
        created_at: created_at.time()?,
        version: version.0,
        inserted_at: inserted_at.time()?,
    };
    Ok((id, person))
}

fn asked(sql: &str, team: i64, wanted: &[&str]) -> Statement {
    Statement::new(sql)
        .bind("team", team)
        .bind_texts("wanted", wanted.iter().copied())
        .within(std::time::Duration::from_secs(5))
}

/// Pieces of a list that fit into a parameter each.
fn short<'a, 'b>(texts: &'a [&'b str]) -> impl Iterator<Item = &'a [&'b str]> {
    let mut size = 0;
    texts.chunk_by(move |text, _| {
        size += 2 * text.len() + 3;
        let fits = size < LONGEST_LIST;
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
        let text = "x".repeat(1000);
        let texts = vec![text.as_str(); 100];
        let pieces: Vec<_> = short(&texts).collect();
        assert!(pieces.len() > 2);
        assert!(pieces.iter().all(|piece| piece.len() * 2003 <= LONGEST_LIST + 4000));
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), 100);
    }
}
