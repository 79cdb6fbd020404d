//! Expressions put together by chance, of which nearly all are right.

use proptest::prelude::*;

/// One of each kind.
#[derive(Debug, Clone)]
pub(crate) struct Four {
    pub(crate) text: String,
    pub(crate) number: String,
    pub(crate) condition: String,
    pub(crate) time: String,
}

/// Properties that the event of the cases has, and one that it has not.
const KEYS: &[&str] = &[
    "text", "quotes", "empty", "n", "neg", "f", "whole", "large", "small", "yes", "no", "null", "arr", "obj", "num",
    "dec", "bad", "most", "over", "least", "time", "day", "noday", "x y", "é", "unsigned", "truth", "zero", "emoji",
    "spaces", "line", "max", "ends", "missing",
];

pub(crate) fn expressions() -> impl Strategy<Value = Four> {
    let key = prop_oneof![
        4 => prop::sample::select(KEYS).prop_map(str::to_owned),
        1 => "[a-zA-Z_$0-9 .'\"\\\\é\n]{0,6}",
    ];
    let text = prop_oneof![
        Just("event".to_owned()),
        key.prop_map(|key| format!("properties['{}']", quoted(&key))),
        "\\PC{0,6}".prop_map(|text| format!("'{}'", quoted(&text))),
    ];
    let number = prop_oneof![
        Just("team_id".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-20..20_i64).prop_map(|number| number.to_string()),
        (-2000..2000_i32).prop_map(|number| format!("{:?}", f64::from(number) / 16.0)),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
    ];
    let condition = prop::sample::select(vec!["true", "timestamp > '2024-01-01'", "event IS NULL"]);
    let time = (-2_000_000_000..10_000_000_000_i64).prop_map(|second| format!("toDateTime({second})"));
    (text, number, condition, time)
        .prop_map(|(text, number, condition, time)| Four {
            text,
            number,
            condition: condition.to_owned(),
            time,
        })
        .prop_recursive(4, 30, 2, |inner| {
            (inner.clone(), inner, "\\PC{0,5}", 0..8_usize)
                .prop_map(|(left, right, pattern, pick)| larger(&left, &right, &quoted(&pattern), pick))
        })
}

fn larger(left: &Four, right: &Four, pattern: &str, pick: usize) -> Four {
    let (a, b) = (&left.text, &right.text);
    let (n, m) = (&left.number, &right.number);
    let (is, was) = (&left.condition, &right.condition);
    let (at, then) = (&left.time, &right.time);
    let texts = [
        format!("concat({a}, {n}, {is}, {at})"),
        format!("replaceAll(lower({b}), {a}, upper({b}))"),
        format!("if({is}, {a}, {b})"),
        format!("toString({m})"),
        format!("coalesce(nullIf({a}, {b}), {b})"),
        format!("CASE {a} WHEN {b} THEN {b} WHEN 5 THEN NULL ELSE {a} END"),
        format!("trim(substring({a}, 2, 3))"),
        format!("multiIf({is}, {a}, {was}, {b}, NULL)"),
    ];
    let numbers = [
        format!("({n}) + {m}"),
        format!("({n}) - ({m})"),
        format!("({n}) * ({m}) / toFloat({a})"),
        format!("- ({n})"),
        format!("toInt({a}) % toInt({m})"),
        format!("length({b}) * position({a}, {b}) + toUnixTimestamp({at})"),
        format!("round(toFloat({n}), 3) + floor({m}) + ceil({m})"),
        format!("greatest(least({n}, {m}), abs({n}) + toDayOfMonth({at}) + toYear({then}))"),
    ];
    let conditions = [
        format!("{is} AND {was}"),
        format!("({is}) OR NOT ({was})"),
        format!("({a}) = ({b})"),
        format!("({n}) BETWEEN ({m}) AND ({n})"),
        format!("({a}) NOT LIKE '%{pattern}%'"),
        format!("({b}) ILIKE '{pattern}%' OR startsWith({a}, {b}) OR empty({a})"),
        format!("({n}) IN (1, 2.5, -3) OR ({at}) < ({then})"),
        format!("(({is}) = toBool({a})) IS NOT NULL"),
    ];
    let times = [
        format!("toStartOfMonth({at})"),
        format!("toStartOfWeek({at})"),
        format!("toDateTime({a})"),
        format!("toDateTime(toInt({n}))"),
        format!("least({at}, {then})"),
        format!("toMonday(toStartOfHour({at}))"),
        format!("if({is}, {at}, {then})"),
        format!("toDate({then})"),
    ];
    Four {
        text: texts[pick].clone(),
        number: numbers[pick].clone(),
        condition: conditions[pick].clone(),
        time: times[pick].clone(),
    }
}

pub(crate) fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "''")
}
