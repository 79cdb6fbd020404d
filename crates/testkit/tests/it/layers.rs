//! Files in layers: of two files of a crate, at most one imports the other, by whatever way. And none is too long to be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Crates whose files are in layers, by their folders.
const IN_LAYERS: [&str; 14] = [
    "api", "apps", "auth", "console", "events", "exports", "hogql", "identity", "outbound", "sandbox", "server",
    "service", "testkit", "../xtask",
];

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    for name in IN_LAYERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut sources = Vec::new();
        read(&folder, "", &mut sources);
        let files = Files::of(sources);
        let imports = files.imports();
        assert!(
            imports.values().any(|imports| !imports.is_empty()),
            "{name} has no imports"
        );
        if let Some(circle) = circle(imports) {
            panic!(
                "files of {name} import each other in a circle:\n{}",
                files.describe(&circle)
            );
        }
    }
}

/// Whatever is committed is recorded with it: nobody else begins a transaction.
#[test]
fn only_the_transaction_of_a_use_case_begins_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src");
    let mut sources = Vec::new();
    read(&folder, "", &mut sources);
    let begins = |text: &str| ["store.begin()", "session.commit()"].map(|call| text.contains(call));
    let found: Vec<&String> = sources
        .iter()
        .filter(|(_, text)| begins(text).contains(&true))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(found, ["transaction.rs"]);
}

/// A destination is saved only after this check, which must be the one of the address policy: nobody else provides another.
#[test]
fn only_the_address_policy_decides_which_destinations_are_saved() {
    let mut found = Vec::new();
    for name in IN_LAYERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut sources = Vec::new();
        read(&folder, "", &mut sources);
        let checks = sources
            .into_iter()
            .filter(|(_, text)| text.contains("DestinationCheck for "));
        found.extend(checks.map(|(path, _)| format!("{name}/src/{path}")));
    }
    assert_eq!(found, ["exports/src/exporter.rs"]);
}

/// The code of an `async fn` is generated wherever it is awaited: the binary and each crate above would compile all use cases again.
#[test]
fn use_cases_are_compiled_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src");
    let mut sources = Vec::new();
    read(&folder, "", &mut sources);
    let (mut boxed, mut others) = (0, Vec::new());
    for (path, text) in sources.iter().filter(|(path, _)| path.ends_with("cases.rs")) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[1].starts_with("pub async fn ")) {
            // What is generic is compiled where it is used in any case.
            let is_generic = pair[1].split('(').next().is_some_and(|name| name.contains('<'));
            match pair[0] {
                "#[boxed]" => boxed += 1,
                _ if is_generic => {}
                _ => others.push(format!("{path}: {}", pair[1])),
            }
        }
    }
    assert!(boxed > 50, "only {boxed} were found");
    assert!(others.is_empty(), "these need #[boxed]: {others:#?}");
}

#[test]
fn files_are_short() {
    const MAX_LINES: usize = 400;
    for name in IN_LAYERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut sources = Vec::new();
        read(&folder, "", &mut sources);
        for (path, text) in sources {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let lines = code.lines().count();
            assert!(
                lines <= MAX_LINES,
                "{name}/src/{path} has {lines} lines: split it by meaning"
            );
        }
    }
}

/// All files below a folder, by their paths in it. Those that hold tests do not count.
fn read(folder: &Path, prefix: &str, sources: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            read(&entry.path(), &format!("{path}/"), sources);
        } else if entry.path().extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            sources.push((path, fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// The names of a path, such as `crate`, `http` and `error`, or of a module, from the root of its crate on.
type Names = Vec<String>;

/// For each module those it imports, each with one of the paths that it does so by.
type Imports = BTreeMap<Names, BTreeMap<Names, Names>>;

/// One module imports another, by some path.
struct Arrow {
    from: Names,
    to: Names,
    by: Names,
}

/// The files of a crate, by their modules.
struct Files(BTreeMap<Names, File>);

struct File {
    path: String,
    uses: Vec<Use>,
    /// Paths of two and more names, outside of `use`.
    named: Vec<Names>,
}

struct Use {
    path: Names,
    /// What it is called here.
    name: String,
    is_public: bool,
}

impl Files {
    fn of(sources: impl IntoIterator<Item = (String, String)>) -> Self {
        let file = |(path, text): (String, String)| (module(&path), File::read(path, &text));
        Self(sources.into_iter().map(file).collect())
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, file) in &self.0 {
            let uses = file.uses.iter().filter_map(|each| {
                let target = self.absolute(module, &each.path)?;
                // What a module passes on of those below it, it need not know.
                let is_passed_on = each.is_public && target.starts_with(module);
                (!is_passed_on).then_some((target, &each.path))
            });
            let named = file
                .named
                .iter()
                .filter_map(|path| Some((self.in_scope(module, path)?, path)));
            let found = imports.entry(module.clone()).or_default();
            for (target, path) in uses.chain(named) {
                let target = self.definer(target);
                if target != *module {
                    found.entry(target).or_insert_with(|| path.clone());
                }
            }
        }
        imports
    }

    /// A path from the root of the crate on; none for what is of another crate, or has no module of its own.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len() - supers], &path[supers..]].concat()),
            _ => {
                let is_below = self.0.contains_key(&[module, &path[..1]].concat());
                is_below.then(|| [module, path].concat())
            }
        }
    }

    /// The same for a path that may begin with a name from a `use`.
    fn in_scope(&self, module: &[String], path: &[String]) -> Option<Names> {
        match self.0[module].uses.iter().find(|each| each.name == path[0]) {
            Some(found) => Some([&self.absolute(module, &found.path)?[..], &path[1..]].concat()),
            None => self.absolute(module, path),
        }
    }

    /// The module that defines what is named, wherever it is passed on.
    fn definer(&self, mut target: Names) -> Names {
        loop {
            let is_module = |length: &usize| self.0.contains_key(&target[..*length]);
            let length = (0..=target.len()).rev().find(is_module).unwrap_or_default();
            let (module, rest) = target.split_at(length);
            let by_name = |name: &String| self.0[module].uses.iter().find(|each| each.name == *name);
            let passed_on = rest.first().and_then(by_name);
            let from = passed_on.and_then(|found| self.absolute(module, &found.path));
            match from.filter(|from| !from.starts_with(&target[..=length])) {
                Some(from) => target = [&from[..], &rest[1..]].concat(),
                None => return module.to_vec(),
            }
        }
    }

    fn describe(&self, circle: &[Arrow]) -> String {
        let path = |module: &Names| &self.0[module].path;
        let line = |Arrow { from, to, by }: &Arrow| format!("{} imports {} by {}", path(from), path(to), by.join("::"));
        circle.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The module that a file is.
fn module(path: &str) -> Names {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if ["lib", "main"].contains(&path) {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// Some circle, if there is any.
fn circle(mut left: Imports) -> Option<Vec<Arrow>> {
    // Who imports nothing of what is left is in no circle.
    loop {
        let before: Vec<Names> = left.keys().cloned().collect();
        left.retain(|_, imports| {
            imports.retain(|import, _| before.contains(import));
            !imports.is_empty()
        });
        if left.len() == before.len() {
            break;
        }
    }
    let mut walked: Vec<Arrow> = Vec::new();
    let mut here = left.keys().next()?.clone();
    loop {
        if let Some(start) = walked.iter().position(|arrow| arrow.from == here) {
            return Some(walked.split_off(start));
        }
        let (to, by) = left[&here].first_key_value()?;
        let from = std::mem::replace(&mut here, to.clone());
        walked.push(Arrow {
            from,
            to: to.clone(),
            by: by.clone(),
        });
    }
}

impl File {
    fn read(path: String, text: &str) -> Self {
        let tokens = tokens(text.parse().unwrap());
        let (mut uses, mut named) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < tokens.len() {
            // Behind `::` are only names of other crates, and what belongs to a type with arguments.
            let is_first = at < 2 || tokens[at - 2..at] != [":", ":"];
            // `use<>` in a type imports nothing.
            if tokens[at] == "use" && tokens[at + 1] != "<" {
                let is_public = is_public(&tokens[..at]);
                let mut found = Vec::new();
                at = follow(&tokens, at + 1, Vec::new(), &mut found);
                uses.extend(found.into_iter().map(|(path, name)| Use { path, name, is_public }));
            } else if is_first && is_name(&tokens[at]) {
                let path = names(&tokens[at..]);
                at += 3 * path.len() - 2;
                named.extend((path.len() > 1).then_some(path));
            } else {
                at += 1;
            }
        }
        Self { path, uses, named }
    }
}

/// Whether what comes after these tokens is for other modules, too.
fn is_public(tokens: &[String]) -> bool {
    let of_item = |token: &&String| !["{", "}", ";"].contains(&token.as_str());
    tokens.iter().rev().take_while(of_item).any(|token| token == "pub")
}

/// The path that begins here.
fn names(tokens: &[String]) -> Names {
    let mut names = vec![tokens[0].clone()];
    while let [first, second, name, ..] = &tokens[3 * names.len() - 2..]
        && first == ":"
        && second == ":"
        && is_name(name)
    {
        names.push(name.clone());
    }
    names
}

fn is_name(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphabetic() || char == '_')
}

/// Names, signs and braces in the order of the text, in macros as elsewhere. Comments, literals and tests are left out.
fn tokens(stream: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut trees = stream.into_iter();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) if group.stream().to_string().replace(' ', "") == "cfg(test)" => {
                trees.find(is_end);
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    _ => ("(", ")"),
                };
                found.push(open.to_owned());
                found.extend(tokens(group.stream()));
                found.push(close.to_owned());
            }
            TokenTree::Literal(_) => found.push(String::new()),
            other => found.push(other.to_string()),
        }
    }
    found
}

/// Whether an item ends here.
fn is_end(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(sign) => [';', ','].contains(&sign.as_char()),
        _ => false,
    }
}

/// Follows what is in a `use` from some token on, and returns where it ends.
fn follow(tokens: &[String], mut at: usize, mut path: Names, found: &mut Vec<(Names, String)>) -> usize {
    loop {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = follow(tokens, at, path.clone(), found);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "as" => {
                found.push((path, tokens[at + 1].clone()));
                return at + 2;
            }
            "," | "}" | ";" => {
                let name = path.last().unwrap().clone();
                found.push((path, name));
                return at;
            }
            ":" => {}
            // In braces: what is before them.
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
}

/// The circle in these files, as it is told.
fn circle_in(sources: &[(&str, &str)]) -> Option<String> {
    let files = Files::of(
        sources
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned())),
    );
    circle(files.imports()).map(|circle| files.describe(&circle))
}

#[test]
fn a_circle_is_told_with_what_makes_it() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use a::A; use c::C;"),
        (
            "a.rs",
            "use crate::b::{self, B as _}; use serde::Serialize; pub struct A;",
        ),
        (
            "b/mod.rs",
            "mod below; fn f() -> impl Sized + use<> { super::c::g::<u8>() }",
        ),
        ("b/below.rs", "use super::super::c::C;"),
        ("c.rs", "use {crate::a as other, std::fmt}; fn g<T>() { other::f(); }"),
    ];
    let told = "c.rs imports a.rs by crate::a\n\
                a.rs imports b/mod.rs by crate::b\n\
                b/mod.rs imports c.rs by super::c::g";
    assert_eq!(circle_in(&files).as_deref(), Some(told));
    assert_eq!(circle_in(&files[..4]), None);
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let below = ("http/error.rs", "pub struct Problem;");
    let between = (
        "http/mod.rs",
        "mod error; mod page; pub use error::Problem; pub use self::page::Page as List;",
    );
    let page = ("http/page.rs", "use super::Problem; pub struct Page;");
    assert_eq!(circle_in(&[below, between, page]), None);
    let above = ("http/error.rs", "fn f(list: crate::http::List) {}");
    let told = "http/error.rs imports http/page.rs by crate::http::List\n\
                http/page.rs imports http/error.rs by super::Problem";
    assert_eq!(circle_in(&[above, between, page]).as_deref(), Some(told));
}

#[test]
fn tests_comments_and_texts_do_not_count_but_macros_do() {
    let lib = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "use super::b::B;");
    let tests = "/// See [`crate::a`].\nconst T: &str = \"crate::a::A\"; // crate::a::A\n\
                 #[cfg(test)] fn f() { crate::a::f() }\n#[cfg(test)]\nmod tests { use crate::a::A; }";
    assert_eq!(circle_in(&[lib, a, ("b.rs", tests)]), None);
    let in_macro = "macro_rules! make { () => { $crate::a::A } }";
    assert!(circle_in(&[lib, a, ("b.rs", in_macro)]).is_some());
}
