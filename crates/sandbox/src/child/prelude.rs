//! What every app has around it: our own scripts, and the modules of the app itself, once there is one.

use std::cell::OnceCell;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Object};

use super::bridge::{self, Bridge};
use super::{natives, position};
use crate::Code;
use crate::code::Target;

/// In the order in which it builds up.
const PRELUDE: [&str; 7] = [
    include_str!("../prelude/host.js"),
    include_str!("../prelude/bytes.js"),
    include_str!("../prelude/url.js"),
    include_str!("../prelude/fetch.js"),
    include_str!("../prelude/packages.js"),
    include_str!("../prelude/meta.js"),
    include_str!("../prelude/app.js"),
];

/// The code in an engine, once there is some.
pub(super) type Loaded = Rc<OnceCell<Rc<Code>>>;

pub(super) fn prelude<'js>(ctx: &Ctx<'js>, code: &Loaded, bridge: &Rc<Bridge>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let shared = Object::new(ctx.clone())?;
    natives::install(ctx, &native)?;
    bridge::install(ctx, &native, bridge)?;
    install_modules(ctx, &native, code)?;
    for source in PRELUDE {
        let part: Function<'js> = evaluate(ctx, position::OURS, source)?;
        part.call::<_, ()>((native.clone(), shared.clone()))?;
    }
    Ok(shared)
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: impl Into<Vec<u8>>) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    // Apps are written for a place where nothing is strict unless it says so.
    options.strict = false;
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}

fn install_modules<'js>(ctx: &Ctx<'js>, native: &Object<'js>, code: &Loaded) -> rquickjs::Result<()> {
    let all = code.clone();
    let resolve = move |importer: String, specifier: String| {
        let target = all.get()?.modules.get(&importer)?.imports.get(&specifier)?;
        Some(match target {
            Target::File(name) => format!("file:{name}"),
            Target::Package(name) => format!("package:{name}"),
            Target::Absent(name) => format!("absent:{name}"),
        })
    };
    native.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    let all = code.clone();
    let module_is_esm = move |name: &str| Some(all.get()?.modules.get(name)?.is_esm);
    let is_esm = move |name: String| module_is_esm(&name).unwrap_or(false);
    native.set("isEsm", Function::new(ctx.clone(), is_esm)?)?;
    let all = code.clone();
    let compile = move |ctx: Ctx<'js>, name: String| {
        evaluate(
            &ctx,
            &name,
            all.get().map_or_else(String::new, |code| wrapped(code, &name)),
        )
    };
    native.set("compile", Function::new(ctx.clone(), compile)?)
}

/// A module as a function. Its head is one line, which [`position`] takes off again.
fn wrapped(code: &Code, name: &str) -> String {
    let module = &code.modules[name];
    let names: Vec<&str> = module.declared.iter().map(String::as_str).collect();
    let declared = names.join(", ");
    let body = &module.code;
    format!(
        "(function (exports, require, module, __import, __exportAll, __importLater, __importMeta) {{\n\
         {body}\nreturn {{ __proto__: null, {declared} }}; }})"
    )
}
