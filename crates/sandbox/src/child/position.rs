//! From positions in transpiled code to those in the source.

use crate::Code;

/// Code is wrapped in a function, whose head has a line of its own.
const LINES_BEFORE: u32 = 1;

/// Frames of our own code bear this name.
pub(crate) const OURS: &str = "<sandbox>";

/// Where something happened: file, line and column, counted from one.
pub(crate) type Location = (String, (u32, u32));

/// A stack in positions of the source, without frames of our own, and the place of its innermost frame.
pub(crate) fn in_source(code: &Code, stack: &str) -> (String, Option<Location>) {
    let mut first = None;
    let mut lines = Vec::new();
    for frame in stack.lines().filter_map(|line| Frame::parse(line.trim())) {
        let Some(module) = code.modules.get(frame.file) else {
            continue;
        };
        let position = look_up(&module.mappings, frame.line.saturating_sub(LINES_BEFORE), frame.column);
        let (line, column) = position.unwrap_or((frame.line.saturating_sub(LINES_BEFORE), frame.column));
        lines.push(format!("at {}{}:{line}:{column}", frame.function, frame.file));
        first.get_or_insert_with(|| (frame.file.to_owned(), (line, column)));
    }
    (lines.join("\n"), first)
}

/// A line such as `at onEvent (index.ts:3:9)` or `at index.ts:3:9`.
struct Frame<'a> {
    function: String,
    file: &'a str,
    line: u32,
    column: u32,
}

impl<'a> Frame<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("at ")?;
        let (function, place) = match rest.rsplit_once(" (") {
            Some((function, place)) => (format!("{function} "), place.strip_suffix(')')?),
            None => (String::new(), rest),
        };
        let (place, column) = place.rsplit_once(':')?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self {
            function,
            file,
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    }
}

/// The position in the source of one in the code; both count from one.
fn look_up(mappings: &str, line: u32, column: u32) -> Option<(u32, u32)> {
    // What a segment says of the source builds on all segments before it; the column in the code begins again each line.
    let (mut source_line, mut source_column) = (0_i64, 0_i64);
    let mut found = None;
    for (index, segments) in mappings.split(';').enumerate() {
        let mut code_column = 0_i64;
        for segment in segments.split(',').filter(|segment| !segment.is_empty()) {
            let fields = decode(segment)?;
            code_column += fields.first()?;
            source_line += fields.get(2).unwrap_or(&0);
            source_column += fields.get(3).unwrap_or(&0);
            let is_before = (index as u64 + 1, code_column + 1) <= (u64::from(line), i64::from(column));
            if is_before || found.is_none() {
                found = Some((source_line, source_column));
            }
        }
        if index as u64 + 1 >= u64::from(line) {
            break;
        }
    }
    let (line, column) = found?;
    Some((u32::try_from(line).ok()? + 1, u32::try_from(column).ok()? + 1))
}

/// The numbers of a segment, which are written in base 64 with a sign at the end and a mark where one goes on.
fn decode(segment: &str) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0_i64, 0);
    for character in segment.bytes() {
        let digit = i64::from(digit(character)?);
        number |= (digit & 31) << shift;
        shift += 5;
        if digit & 32 == 0 {
            numbers.push(if number & 1 == 0 { number >> 1 } else { -(number >> 1) });
            (number, shift) = (0, 0);
        } else if shift > 40 {
            return None;
        }
    }
    Some(numbers)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_decode() {
        assert_eq!(decode("AAgBC"), Some(vec![0, 0, 16, 1]));
        assert_eq!(decode("D"), Some(vec![-1]));
        assert_eq!(decode("?"), None);
    }

    #[test]
    fn positions_are_those_of_the_last_segment_before() {
        // Line 1 column 0 is source 1:1; line 2 column 4 is source 3:1.
        assert_eq!(look_up("AAAA;IAEA", 2, 9), Some((3, 1)));
        assert_eq!(look_up("AAAA;IAEA", 2, 2), Some((1, 1)));
        assert_eq!(look_up("", 1, 1), None);
    }

    #[test]
    fn frames_parse() {
        let frame = Frame::parse("at onEvent (lib/a:b.ts:3:9)").unwrap();
        assert_eq!((frame.file, frame.line, frame.column), ("lib/a:b.ts", 3, 9));
        assert!(Frame::parse("at native (native)").is_none());
    }
}
