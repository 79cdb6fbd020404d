//! Changes to XML text, at random but repeatable: of bytes, of elements, of attributes, and between documents.

use std::ops::Range;

/// Numbers that look random and are the same for the same seed (`SplitMix64`).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit, which must not be zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a limit fits");
        usize::try_from(self.next() % limit).expect("a number below a limit fits")
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.below(PIECES.len())]
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }
}

/// What attacks are made of.
const PIECES: &[&str] = &[
    "<!---->",
    "<!-- x -->",
    "<![CDATA[",
    "]]>",
    "<?x y?>",
    "<!DOCTYPE x>",
    "&amp;",
    "&lt;",
    "&#xD;",
    "&#0;",
    "&x;",
    "&#x10FFFF;",
    "\r",
    "\n",
    " ",
    "\u{a0}",
    "\u{feff}",
    "<x></x>",
    "<x/>",
    "owner@corp.test",
    " xmlns=\"\"",
    " xmlns=\"urn:oasis:names:tc:SAML:2.0:assertion\"",
    " xmlns:saml=\"urn:x\"",
    " xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"",
    " x:xmlns=\"urn:x\"",
    " ID=\"_assertion1\"",
    " Id=\"_response1\"",
    " xml:id=\"_assertion1\"",
    " xml:base=\"https://evil.test\"",
    " PrefixList=\"#default xs saml\"",
    "#",
    "=",
    "\"",
];

const NAMES: &[&str] = &[
    "saml:Assertion",
    "samlp:Response",
    "ds:Signature",
    "ds:SignedInfo",
    "ds:Object",
    "ds:Reference",
    "saml:NameID",
    "saml:Subject",
    "saml:Advice",
    "samlp:Extensions",
    "saml:EncryptedAssertion",
    "Assertion",
    "x",
];

/// Prefixes of the corpus. An element that is taken out of its document brings them along, or no parser would take it.
const NAMESPACES: &[(&str, &str)] = &[
    ("saml", "urn:oasis:names:tc:SAML:2.0:assertion"),
    ("saml2", "urn:oasis:names:tc:SAML:2.0:assertion"),
    ("samlp", "urn:oasis:names:tc:SAML:2.0:protocol"),
    ("saml2p", "urn:oasis:names:tc:SAML:2.0:protocol"),
    ("ds", "http://www.w3.org/2000/09/xmldsig#"),
    ("dsig", "http://www.w3.org/2000/09/xmldsig#"),
];

/// One to four changes. `others` are what parts can be taken from.
pub(crate) fn changed(dice: &mut Dice, xml: &str, others: &[&str]) -> String {
    let mut text = xml.to_owned();
    for _ in 0..=dice.below(4) {
        text = change(dice, &text, others);
    }
    text
}

fn change(dice: &mut Dice, xml: &str, others: &[&str]) -> String {
    let spans = elements(xml);
    if spans.is_empty() || dice.below(4) == 0 {
        return change_bytes(dice, xml);
    }
    let chosen = dice.pick(&spans).clone();
    let element = &xml[chosen.clone()];
    match dice.below(11) {
        0 => replaced(xml, chosen, ""),
        1 => inserted(xml, tag_boundary(dice, xml), &self_contained(element)),
        2 => moved(dice, xml, chosen),
        3 => replaced(xml, chosen, &from_another(dice, others)),
        4 => inserted(xml, tag_boundary(dice, xml), &from_another(dice, others)),
        5 => replaced(xml, chosen, &self_contained(&renamed(element, dice.name()))),
        6 => replaced(xml, chosen, &self_contained(&wrapped(element, dice.name()))),
        7 => swapped_signature(dice, xml, others),
        8 => changed_attribute(dice, xml),
        9 => changed_text(dice, xml, others),
        _ => replaced(xml, chosen, &element.repeat(2)),
    }
}

fn change_bytes(dice: &mut Dice, xml: &str) -> String {
    if xml.is_empty() {
        return dice.piece().to_owned();
    }
    let start = character_boundary(dice, xml);
    let end = xml.len().min(start + dice.below(8));
    let end = (end..=xml.len())
        .find(|at| xml.is_char_boundary(*at))
        .unwrap_or(xml.len());
    match dice.below(4) {
        0 => replaced(xml, start..end, ""),
        1 => inserted(xml, start, &xml[start..end]),
        2 => inserted(xml, start, dice.piece()),
        _ => {
            let character = char::from(u8::try_from(32 + dice.below(95)).expect("ascii"));
            let length = xml[start..].chars().next().map_or(0, char::len_utf8);
            replaced(xml, start..start + length, &character.to_string())
        }
    }
}

/// Where each element begins and ends, as far as tags match.
fn elements(xml: &str) -> Vec<Range<usize>> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for (start, _) in xml.match_indices('<') {
        let Some(length) = xml[start..].find('>') else { break };
        let end = start + length + 1;
        let tag = &xml[start..end];
        if tag.starts_with("<?") || tag.starts_with("<!") {
            continue;
        }
        if tag.starts_with("</") {
            found.extend(open.pop().map(|start| start..end));
        } else if tag.ends_with("/>") {
            found.push(start..end);
        } else {
            open.push(start);
        }
    }
    found
}

fn tag_boundary(dice: &mut Dice, xml: &str) -> usize {
    let starts: Vec<usize> = xml.match_indices('<').map(|(start, _)| start).collect();
    if starts.is_empty() { 0 } else { *dice.pick(&starts) }
}

fn character_boundary(dice: &mut Dice, xml: &str) -> usize {
    let at = dice.below(xml.len());
    (0..=at).rev().find(|at| xml.is_char_boundary(*at)).unwrap_or(0)
}

fn from_another(dice: &mut Dice, others: &[&str]) -> String {
    let other = *dice.pick(others);
    let spans = elements(other);
    self_contained(&other[dice.pick(&spans).clone()])
}

/// The element with every prefix declared that is used in it.
fn self_contained(element: &str) -> String {
    let name_end = element.find([' ', '>', '/']).unwrap_or(element.len());
    let tag = &element[..element.find('>').unwrap_or(element.len())];
    let is_missing = |(prefix, _): &&(&str, &str)| {
        element.contains(&format!("<{prefix}:")) && !tag.contains(&format!("xmlns:{prefix}="))
    };
    let missing = NAMESPACES.iter().filter(is_missing);
    let declarations: Vec<String> = missing
        .map(|(prefix, uri)| format!(" xmlns:{prefix}=\"{uri}\""))
        .collect();
    inserted(element, name_end, &declarations.concat())
}

fn moved(dice: &mut Dice, xml: &str, from: Range<usize>) -> String {
    let element = self_contained(&xml[from.clone()]);
    let rest = replaced(xml, from, "");
    let to = tag_boundary(dice, &rest);
    inserted(&rest, to, &element)
}

/// A whole signature, or one part of it, from another document: all of them are genuine.
fn swapped_signature(dice: &mut Dice, xml: &str, others: &[&str]) -> String {
    let name = *dice.pick(&[
        "Signature",
        "SignedInfo",
        "SignatureValue",
        "DigestValue",
        "Assertion",
        "Subject",
        "Transforms",
    ]);
    let named = |text: &str| -> Vec<Range<usize>> {
        let is_named = |span: &Range<usize>| {
            let tag = text[span.start + 1..].split([' ', '>', '/']).next().unwrap_or_default();
            tag.rsplit(':').next() == Some(name)
        };
        elements(text).into_iter().filter(is_named).collect()
    };
    let other = *dice.pick(others);
    let (ours, theirs) = (named(xml), named(other));
    if ours.is_empty() || theirs.is_empty() {
        return xml.to_owned();
    }
    let theirs = dice.pick(&theirs).clone();
    replaced(xml, dice.pick(&ours).clone(), &self_contained(&other[theirs]))
}

fn changed_attribute(dice: &mut Dice, xml: &str) -> String {
    let values: Vec<usize> = xml.match_indices("=\"").map(|(at, _)| at + 2).collect();
    if values.is_empty() {
        return xml.to_owned();
    }
    let (at, from) = (*dice.pick(&values), *dice.pick(&values));
    let end_of = |start: usize| start + xml[start..].find('"').unwrap_or(0);
    match dice.below(4) {
        0 => replaced(xml, at..end_of(at), &xml[from..end_of(from)]),
        1 => inserted(xml, end_of(at), dice.piece()),
        2 => inserted(xml, (end_of(at) + 1).min(xml.len()), dice.piece()),
        _ => replaced(xml, at..end_of(at), ""),
    }
}

fn changed_text(dice: &mut Dice, xml: &str, others: &[&str]) -> String {
    let texts = |text: &str| -> Vec<Range<usize>> {
        let after = |(at, _): (usize, &str)| at + 1..at + 1 + text[at + 1..].find('<').unwrap_or(0);
        text.match_indices('>')
            .map(after)
            .filter(|range| !range.is_empty())
            .collect()
    };
    let other = *dice.pick(others);
    let (ours, theirs) = (texts(xml), texts(other));
    if ours.is_empty() || theirs.is_empty() {
        return xml.to_owned();
    }
    let ours = dice.pick(&ours).clone();
    match dice.below(3) {
        0 => replaced(xml, ours, &other[dice.pick(&theirs).clone()]),
        1 => inserted(xml, ours.end, dice.piece()),
        _ => inserted(xml, ours.start, dice.piece()),
    }
}

fn renamed(element: &str, name: &str) -> String {
    let old = element[1..].split([' ', '>', '/']).next().unwrap_or_default();
    let opened = format!("<{name}{}", &element[1 + old.len()..]);
    match opened.strip_suffix(&format!("</{old}>")) {
        Some(rest) => format!("{rest}</{name}>"),
        None => opened,
    }
}

fn wrapped(element: &str, name: &str) -> String {
    format!("<{name}>{element}</{name}>")
}

fn replaced(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

fn inserted(text: &str, at: usize, piece: &str) -> String {
    replaced(text, at..at, piece)
}
