//! Which files of an app its code consists of.

use std::collections::BTreeMap;
use std::path::Path;

use super::packages;
use super::transpile::{Import, Transpiled, transpile};
use crate::code::Target;
use crate::manifest::{self, Manifest};
use crate::{Code, Fault, Files, Module};

/// Endings that an import may leave out, in the order in which they are tried.
const ENDINGS: [&str; 7] = [".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".json"];

/// Names that the file loaded first may have.
const ENTRIES: [&str; 2] = ["index.js", "index.ts"];

/// Of all modules together. Each takes much more memory than its text.
const MAX_IMPORTS: usize = 5000;
/// Names that scripts declare at their top level, of all modules together.
const MAX_DECLARED: usize = 10_000;
/// Of what the modules become, with what leads back to their lines: a few characters can become many.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Transpiles the file that is loaded first, and all that it imports. Other files are not looked at.
pub(crate) fn collect(files: &Files, manifest: &Manifest) -> Result<Code, Fault> {
    let Some(entry) = entry(files, manifest)? else {
        return Ok(Code::default());
    };
    let mut modules = BTreeMap::new();
    let mut waiting = vec![entry.to_owned()];
    let (mut imports, mut declared, mut bytes) = (0, 0, 0);
    while let Some(name) = waiting.pop() {
        if modules.contains_key(&name) {
            continue;
        }
        let module = module(files, &name)?;
        imports += module.imports.len();
        if imports > MAX_IMPORTS {
            let message = format!("an app can have at most {MAX_IMPORTS} imports");
            return Err(Fault::in_file(&name, message));
        }
        declared += module.declared.len();
        if declared > MAX_DECLARED {
            let message = format!("an app can declare at most {MAX_DECLARED} global names");
            return Err(Fault::in_file(&name, message));
        }
        bytes += module.code.len() + module.mappings.len();
        if bytes > MAX_BYTES {
            let message = format!("the compiled code of an app can have at most {MAX_BYTES} bytes");
            return Err(Fault::in_file(&name, message));
        }
        waiting.extend(module.imports.values().filter_map(|target| match target {
            Target::File(file) => Some(file.clone()),
            Target::Package(_) | Target::Absent(_) => None,
        }));
        modules.insert(name, module);
    }
    Ok(Code {
        entry: Some(entry.to_owned()),
        modules,
    })
}

fn entry<'a>(files: &'a Files, manifest: &Manifest) -> Result<Option<&'a str>, Fault> {
    let Some(main) = &manifest.main else {
        let entry = ENTRIES.iter().find_map(|name| files.get_key_value(*name));
        return Ok(entry.map(|(name, _)| name.as_str()));
    };
    match join("", main).and_then(|path| find_file(files, &path)) {
        Some(file) => Ok(Some(file)),
        None => Err(Fault::in_file(
            manifest::FILE,
            format!("\"main\" names '{main}', which does not exist"),
        )),
    }
}

fn module(files: &Files, name: &str) -> Result<Module, Fault> {
    let text = &files[name];
    if Path::new(name).extension().is_some_and(|ending| ending == "json") {
        return json_module(name, text);
    }
    let Transpiled {
        code,
        mappings,
        imports,
        is_esm,
        declared,
    } = transpile(name, text)?;
    let mut targets = BTreeMap::new();
    for import in imports {
        let target = target(files, name, &import).map_err(|message| import.fault(name, text, message))?;
        targets.insert(import.specifier, target);
    }
    Ok(Module {
        code,
        imports: targets,
        is_esm,
        declared,
        mappings,
    })
}

fn json_module(name: &str, text: &str) -> Result<Module, Fault> {
    let value: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Fault::at(
            name,
            (number(error.line()), number(error.column())),
            "this is not valid JSON",
        )
    })?;
    // `"__proto__"` would be a prototype in an expression, and is a property in parsed text.
    let text = serde_json::to_string(&value.to_string()).expect("text can be written as JSON");
    Ok(Module {
        code: format!("module.exports = JSON.parse({text});"),
        ..Module::default()
    })
}

fn target(files: &Files, importer: &str, import: &Import) -> Result<Target, String> {
    let specifier = &import.specifier;
    if !specifier.starts_with('.') {
        return packages::find(specifier).ok_or_else(|| packages::refusal(specifier));
    }
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let file = join(folder, specifier).and_then(|path| find_file(files, &path));
    file.map(|file| Target::File(file.to_owned()))
        .ok_or_else(|| format!("Cannot import '{specifier}': file not found"))
}

/// A path below the app's root; none if it leads out.
fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The file that a path means: itself, with an ending, as TypeScript has it with another ending, or a folder's index.
fn find_file<'a>(files: &'a Files, path: &str) -> Option<&'a str> {
    let known = |name: &str| files.get_key_value(name).map(|(name, _)| name.as_str());
    let with_ending = |stem: &str| ENDINGS.iter().find_map(|ending| known(&format!("{stem}{ending}")));
    let as_typescript = || path.strip_suffix(".js").and_then(|stem| known(&format!("{stem}.ts")));
    let folder = || {
        if path.is_empty() {
            "index".to_owned()
        } else {
            format!("{path}/index")
        }
    };
    known(path)
        .or_else(|| with_ending(path))
        .or_else(as_typescript)
        .or_else(|| with_ending(&folder()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_within_the_app() {
        assert_eq!(join("lib/a", "../b"), Some("lib/b".to_owned()));
        assert_eq!(join("", "./x"), Some("x".to_owned()));
        assert_eq!(join("lib", "../../x"), None);
    }

    #[test]
    fn imports_are_limited() {
        let collect = |count: usize| {
            let imports: Vec<String> = (0..count).map(|number| format!("require('pg/{number}')")).collect();
            let files = [("index.js".to_owned(), imports.join("\n"))].into();
            super::collect(&files, &Manifest::default())
        };
        assert!(collect(MAX_IMPORTS).is_ok());
        let fault = collect(MAX_IMPORTS + 1).unwrap_err();
        assert!(fault.to_string().contains("at most 5000 imports"), "{fault}");
    }

    /// A name takes two bytes of code, and much more as one of the names that are told.
    #[test]
    fn global_names_are_limited_and_count_once() {
        let collect = |text: String| super::collect(&[("index.js".to_owned(), text)].into(), &Manifest::default());
        let names = |count: usize| {
            (0..count)
                .map(|number| format!("a{number}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        let declared = |code: Code| code.modules["index.js"].declared.len();
        assert_eq!(
            collect(format!("var {}", names(MAX_DECLARED))).map(declared),
            Ok(MAX_DECLARED)
        );
        assert_eq!(collect(format!("var {}a", "a,".repeat(100_000))).map(declared), Ok(1));
        let fault = collect(format!("var {}", names(MAX_DECLARED + 1))).unwrap_err();
        assert!(fault.to_string().contains("at most 10000 global names"), "{fault}");
    }

    /// Elements become calls, each with a way back to its line: a text of one megabyte becomes many.
    #[test]
    fn what_code_becomes_is_limited() {
        let collect = |count: usize| {
            let files = [
                ("index.js".to_owned(), "require('./a.jsx')".to_owned()),
                ("a.jsx".to_owned(), "<a/>;".repeat(count)),
            ];
            super::collect(&files.into(), &Manifest::default())
        };
        let code = collect(10_000).unwrap();
        let module = &code.modules["a.jsx"];
        let each = (module.code.len() + module.mappings.len()) / 10_000;
        assert!(each > 20, "{each} bytes");
        let fault = collect(MAX_BYTES / each + 10_000).unwrap_err();
        assert!(fault.to_string().contains("at most 8388608 bytes"), "{fault}");
    }

    #[test]
    fn files_are_found_without_their_ending() {
        let files: Files = ["lib/x.ts", "lib/y/index.js", "z.json", "index.ts"]
            .map(|name| (name.to_owned(), String::new()))
            .into();
        let find = |path: &str| find_file(&files, path);
        assert_eq!(find("lib/x"), Some("lib/x.ts"));
        assert_eq!(find("lib/x.js"), Some("lib/x.ts"));
        assert_eq!(find("lib/y"), Some("lib/y/index.js"));
        assert_eq!(find("z"), Some("z.json"));
        assert_eq!(find(""), Some("index.ts"));
        assert_eq!(find("lib"), None);
    }
}
