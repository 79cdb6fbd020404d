//! Cuts code into comments, texts, numbers and words of the language. Every sign is looked at a fixed number of times,
//! whatever the code is.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Script,
    Json,
    Other,
}

impl Language {
    pub(super) fn of(file: &str) -> Self {
        match file.rsplit('.').next().unwrap_or_default() {
            "ts" | "tsx" | "js" | "jsx" | "mjs" | "cjs" => Self::Script,
            "json" => Self::Json,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Comment,
    Text,
    Number,
    Word,
    Key,
}

impl Kind {
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Comment => "code-comment",
            Self::Text => "code-text",
            Self::Number => "code-digits",
            Self::Word => "code-word",
            Self::Key => "code-key",
        }
    }
}

/// Cuts code into pieces that are all of one kind. Together they are the code.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    language: Language,
    /// For each `${` that is open, how many braces are open inside of it.
    open: Vec<usize>,
    /// Whether a slash here would begin a pattern, and not divide.
    may_begin_pattern: bool,
    /// How much is left where the line ends on which no pattern begins any more.
    no_pattern_until: Option<usize>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str, language: Language) -> Self {
        Self {
            rest: source,
            language,
            open: Vec::new(),
            may_begin_pattern: true,
            no_pattern_until: None,
        }
    }

    /// The kind of the piece that comes next, and how long it is.
    fn look(&mut self, first: char) -> (Kind, usize) {
        let rest = self.rest;
        match (self.language, first) {
            (Language::Other, _) => (Kind::Plain, rest.len()),
            (Language::Script, '/') if rest.starts_with("//") => (Kind::Comment, end_of_line(rest)),
            (Language::Script, '/') if rest.starts_with("/*") => (Kind::Comment, end_of_remark(rest)),
            (Language::Script, '/') => self.slash(),
            (Language::Script, '`') => self.template(),
            (Language::Script, '}') if self.open.last() == Some(&0) => {
                self.open.pop();
                self.template()
            }
            (Language::Script, '\'') | (_, '"') => self.quoted(first),
            (_, first) if first.is_ascii_digit() => self.run(Kind::Number, |sign| sign == '.' || is_of_word(sign)),
            (_, first) if is_of_word(first) => self.word(),
            (_, first) if first.is_whitespace() => (
                Kind::Plain,
                rest.find(|sign: char| !sign.is_whitespace()).unwrap_or(rest.len()),
            ),
            _ => self.sign(first),
        }
    }

    fn run(&mut self, kind: Kind, belongs: impl Fn(char) -> bool) -> (Kind, usize) {
        self.may_begin_pattern = false;
        (kind, self.rest.find(|sign| !belongs(sign)).unwrap_or(self.rest.len()))
    }

    fn word(&mut self) -> (Kind, usize) {
        let (_, length) = self.run(Kind::Word, is_of_word);
        let word = &self.rest[..length];
        if VALUES.contains(&word) {
            return (Kind::Word, length);
        }
        let is_of_language = self.language == Language::Script && WORDS.contains(&word);
        self.may_begin_pattern = is_of_language;
        (if is_of_language { Kind::Word } else { Kind::Plain }, length)
    }

    fn sign(&mut self, sign: char) -> (Kind, usize) {
        match (sign, self.open.last_mut()) {
            ('{', Some(braces)) => *braces += 1,
            ('}', Some(braces)) => *braces -= 1,
            _ => {}
        }
        self.may_begin_pattern = !matches!(sign, ')' | ']' | '}');
        (Kind::Plain, sign.len_utf8())
    }

    /// A text in quotes. One that is not ended ends with its line.
    fn quoted(&mut self, quote: char) -> (Kind, usize) {
        let mut is_escaped = false;
        let mut length = self.rest.len();
        for (place, sign) in self.rest.char_indices().skip(1) {
            match sign {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '\n' => {
                    length = place;
                    break;
                }
                sign if sign == quote => {
                    length = place + 1;
                    break;
                }
                _ => {}
            }
        }
        self.may_begin_pattern = false;
        let is_key = self.language == Language::Json && self.rest[length..].trim_start().starts_with(':');
        (if is_key { Kind::Key } else { Kind::Text }, length)
    }

    /// A text between backquotes, up to its end or to code inside of it.
    fn template(&mut self) -> (Kind, usize) {
        let mut before = ' ';
        for (place, sign) in self.rest.char_indices().skip(1) {
            match (before, sign) {
                ('\\', _) => before = ' ',
                (_, '`') => {
                    self.may_begin_pattern = false;
                    return (Kind::Text, place + 1);
                }
                ('$', '{') => {
                    self.open.push(0);
                    self.may_begin_pattern = true;
                    return (Kind::Text, place + 1);
                }
                _ => before = sign,
            }
        }
        (Kind::Text, self.rest.len())
    }

    /// A pattern, or a sign that divides.
    fn slash(&mut self) -> (Kind, usize) {
        let is_in_vain = self.no_pattern_until.is_some_and(|left| self.rest.len() > left);
        if !self.may_begin_pattern || is_in_vain {
            return self.sign('/');
        }
        match end_of_pattern(self.rest) {
            Ok(length) => {
                self.may_begin_pattern = false;
                (Kind::Text, length)
            }
            Err(length) => {
                // Looking again from every other slash of the line would take forever.
                self.no_pattern_until = Some(self.rest.len() - length);
                self.sign('/')
            }
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = (Kind, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.chars().next()?;
        let (kind, length) = self.look(first);
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some((kind, piece))
    }
}

fn end_of_line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

fn end_of_remark(rest: &str) -> usize {
    rest[2..].find("*/").map_or(rest.len(), |place| place + 4)
}

/// How long the pattern is, or how far it is to the end of the line that has none.
fn end_of_pattern(rest: &str) -> Result<usize, usize> {
    let (mut is_escaped, mut is_in_class) = (false, false);
    for (place, sign) in rest.char_indices().skip(1) {
        match sign {
            '\n' => return Err(place),
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '/' if !is_in_class => return Ok(place + 1),
            _ => {}
        }
    }
    Err(rest.len())
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_' || sign == '$'
}

/// Words that stand for a value: after them, a slash divides.
const VALUES: [&str; 6] = ["true", "false", "null", "undefined", "this", "super"];

const WORDS: [&str; 46] = [
    "abstract",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "declare",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "finally",
    "for",
    "from",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "of",
    "private",
    "protected",
    "public",
    "readonly",
    "return",
    "static",
    "switch",
    "throw",
    "try",
    "type",
    "typeof",
    "var",
    "while",
    "yield",
];
