//! The functions a query may call: names, what they take, what they give. How an engine says them is in `render`.

use crate::model::Type;

/// What a function takes at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Text,
    Number,
    Time,
    /// Anything but null; what is not text is turned into text.
    AsText,
    /// Anything of one of these kinds.
    OneOf(&'static [Type]),
    /// A whole number written in the query, from this to that.
    Literal(i64, i64),
    /// Whatever the first is; a whole number becomes a fraction where another one is.
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Always(Type),
    /// What the first argument is.
    First,
}

pub(crate) struct Definition {
    pub(crate) function: Function,
    /// The first is the one written by us.
    pub(crate) names: &'static [&'static str],
    pub(crate) takes: &'static [Takes],
    /// How many of `takes` must be there.
    pub(crate) at_least: usize,
    /// Whether the last of `takes` may be repeated.
    pub(crate) is_variadic: bool,
    pub(crate) gives: Gives,
}

macro_rules! functions {
    ($($name:ident $names:tt takes $takes:tt at least $at_least:literal $(and more $variadic:literal)?, gives $gives:expr;)+) => {
        /// A function that gives the same result for the same arguments, always and on every engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Function { $($name),+ }

        pub(crate) const DEFINITIONS: &[Definition] = &[$(Definition {
            function: Function::$name,
            names: &$names,
            takes: &$takes,
            at_least: $at_least,
            is_variadic: false $(|| $variadic)?,
            gives: $gives,
        }),+];
    };
}

use Gives::{Always, First};
use Takes::{AsText, Literal, Number, OneOf, Same, Text, Time};

const CONVERTIBLE: &[Type] = &[Type::Text, Type::Int, Type::Float, Type::Bool];
const COMPARABLE: &[Type] = &[Type::Text, Type::Int, Type::Float, Type::Time];
const ANY: &[Type] = &[Type::Text, Type::Json, Type::Int, Type::Float, Type::Bool, Type::Time];
const DATELIKE: &[Type] = &[Type::Text, Type::Int, Type::Time];
const MANY: i64 = i32::MAX as i64;

functions! {
    ToString ["toString"] takes [OneOf(ANY)] at least 1, gives Always(Type::Text);
    ToInt ["toInt", "toInt64"] takes [OneOf(CONVERTIBLE)] at least 1, gives Always(Type::Int);
    ToFloat ["toFloat", "toFloat64"] takes [OneOf(CONVERTIBLE)] at least 1, gives Always(Type::Float);
    ToBool ["toBool"] takes [OneOf(CONVERTIBLE)] at least 1, gives Always(Type::Bool);
    ToDateTime ["toDateTime", "toDateTime64"] takes [OneOf(DATELIKE)] at least 1, gives Always(Type::Time);
    ToDate ["toDate"] takes [OneOf(DATELIKE)] at least 1, gives Always(Type::Time);
    ToUnixTimestamp ["toUnixTimestamp"] takes [Time] at least 1, gives Always(Type::Int);
    Lower ["lower", "lcase"] takes [Text] at least 1, gives Always(Type::Text);
    Upper ["upper", "ucase"] takes [Text] at least 1, gives Always(Type::Text);
    Trim ["trim", "trimBoth"] takes [Text] at least 1, gives Always(Type::Text);
    Length ["length", "lengthUTF8"] takes [Text] at least 1, gives Always(Type::Int);
    Substring ["substring", "substr", "substringUTF8"] takes [Text, Literal(1, MANY), Literal(0, MANY)] at least 2, gives Always(Type::Text);
    ReplaceAll ["replaceAll", "replace"] takes [Text, Text, Text] at least 3, gives Always(Type::Text);
    Concat ["concat"] takes [AsText] at least 1 and more true, gives Always(Type::Text);
    StartsWith ["startsWith"] takes [Text, Text] at least 2, gives Always(Type::Bool);
    EndsWith ["endsWith"] takes [Text, Text] at least 2, gives Always(Type::Bool);
    Position ["position", "positionUTF8"] takes [Text, Text] at least 2, gives Always(Type::Int);
    Empty ["empty"] takes [Text] at least 1, gives Always(Type::Bool);
    NotEmpty ["notEmpty"] takes [Text] at least 1, gives Always(Type::Bool);
    Coalesce ["coalesce", "ifNull"] takes [OneOf(ANY), Same] at least 2 and more true, gives First;
    NullIf ["nullIf"] takes [OneOf(COMPARABLE), Same] at least 2, gives First;
    Abs ["abs"] takes [Number] at least 1, gives First;
    Round ["round"] takes [Number, Literal(0, 15)] at least 1, gives First;
    Floor ["floor"] takes [Number] at least 1, gives First;
    Ceil ["ceil", "ceiling"] takes [Number] at least 1, gives First;
    Least ["least"] takes [OneOf(COMPARABLE), Same] at least 2, gives First;
    Greatest ["greatest"] takes [OneOf(COMPARABLE), Same] at least 2, gives First;
    ToStartOfMinute ["toStartOfMinute"] takes [Time] at least 1, gives Always(Type::Time);
    ToStartOfHour ["toStartOfHour"] takes [Time] at least 1, gives Always(Type::Time);
    ToStartOfDay ["toStartOfDay"] takes [Time] at least 1, gives Always(Type::Time);
    ToStartOfWeek ["toStartOfWeek"] takes [Time] at least 1, gives Always(Type::Time);
    ToMonday ["toMonday"] takes [Time] at least 1, gives Always(Type::Time);
    ToStartOfMonth ["toStartOfMonth"] takes [Time] at least 1, gives Always(Type::Time);
    ToYear ["toYear"] takes [Time] at least 1, gives Always(Type::Int);
    ToMonth ["toMonth"] takes [Time] at least 1, gives Always(Type::Int);
    ToDayOfMonth ["toDayOfMonth"] takes [Time] at least 1, gives Always(Type::Int);
    ToHour ["toHour"] takes [Time] at least 1, gives Always(Type::Int);
}

impl Function {
    pub const ALL: &[Self] = &{
        let mut all = [Self::ToString; DEFINITIONS.len()];
        let mut index = 0;
        while index < DEFINITIONS.len() {
            all[index] = DEFINITIONS[index].function;
            index += 1;
        }
        all
    };

    /// By any of its names, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let has_name = |definition: &&Definition| definition.names.iter().any(|other| other.eq_ignore_ascii_case(name));
        DEFINITIONS.iter().find(has_name).map(|definition| definition.function)
    }

    pub(crate) fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.definition().names[0]
    }
}
