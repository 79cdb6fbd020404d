//! TypeScript, JSX and modules become plain JavaScript: the body of a function that gets `exports` and `require`.

use std::collections::BTreeSet;
use std::path::Path;

use oxc::allocator::{Allocator, TakeIn};
use oxc::ast::ast::{
    BindingPattern, CallExpression, Expression, IdentifierReference, ImportExpression, Program, Statement,
    StringLiteral, VariableDeclarationKind,
};
use oxc::ast_visit::{Visit, VisitMut, walk, walk_mut};
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc::diagnostics::Diagnostics;
use oxc::parser::{ParseOptions, Parser};
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{JsxRuntime, TransformOptions, Transformer};
use oxc::transformer_plugins::ModuleRunnerTransform;

use crate::Fault;

/// The oldest JavaScript that needs no helper functions for what the engine knows itself.
const TARGET: &str = "es2022";

/// What the modules' transform calls things, and what the wrapper around the code calls them.
const NAMES: [(&str, &str); 5] = [
    ("__vite_ssr_import__", "__import"),
    ("__vite_ssr_exports__", "exports"),
    ("__vite_ssr_exportAll__", "__exportAll"),
    ("__vite_ssr_dynamic_import__", "__importLater"),
    ("__vite_ssr_import_meta__", "__importMeta"),
];

/// A file, transpiled.
pub(crate) struct Transpiled {
    pub(crate) code: String,
    pub(crate) mappings: String,
    pub(crate) imports: Vec<Import>,
    pub(crate) is_esm: bool,
    pub(crate) declared: BTreeSet<String>,
}

/// An import that is still there once types are gone.
pub(crate) struct Import {
    pub(crate) specifier: String,
    offset: u32,
}

impl Import {
    pub(crate) fn fault(&self, file: &str, text: &str, message: impl Into<String>) -> Fault {
        Fault::at(file, position(text, self.offset), message)
    }
}

/// Transpiles a file by the language its name tells.
pub(crate) fn transpile(file: &str, text: &str) -> Result<Transpiled, Fault> {
    let path = Path::new(file);
    let language = SourceType::from_path(path).map_err(|_| Fault::in_file(file, "this is not a source file"))?;
    let allocator = Allocator::default();
    let options = ParseOptions {
        allow_return_outside_function: true,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(&allocator, text, language).with_options(options).parse();
    check(file, text, &parsed.diagnostics)?;
    let mut program = parsed.program;

    let meaning = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .build(&program);
    check(file, text, &meaning.diagnostics)?;
    let scoping = meaning.semantic.into_scoping();
    let transformed =
        Transformer::new(&allocator, path, &options_of_transform()).build_with_scoping(scoping, &mut program);
    check(file, text, &transformed.diagnostics)?;

    let imports = imports_of(&program);
    let is_esm = program.body.iter().any(is_module_syntax);
    let declared = declared_in(&program);
    modules_to_functions(&allocator, &mut program);
    let (code, mappings) = print(&program, path);
    Ok(Transpiled {
        code,
        mappings,
        imports,
        is_esm,
        declared,
    })
}

fn options_of_transform() -> TransformOptions {
    let mut options = TransformOptions::from_target(TARGET).expect("the target is one that is known");
    options.jsx.runtime = JsxRuntime::Classic;
    // A field that only says its type must not undo what a base class has set.
    options.typescript.remove_class_fields_without_initializer = true;
    options
}

fn check(file: &str, text: &str, diagnostics: &Diagnostics) -> Result<(), Fault> {
    let Some(error) = diagnostics.errors().next() else {
        return Ok(());
    };
    let message = error.message.to_string();
    // Of several places, the last is where it went wrong; those before explain.
    match error.labels.iter().max_by_key(|label| label.offset()) {
        Some(label) => Err(Fault::at(file, position(text, label.offset()), message)),
        None => Err(Fault::in_file(file, message)),
    }
}

/// Line and column of a byte, counted from one.
fn position(text: &str, offset: u32) -> (u32, u32) {
    let before = text.get(..offset as usize).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX - 1) + 1;
    (number(line), number(column))
}

fn is_module_syntax(statement: &Statement<'_>) -> bool {
    statement.is_module_declaration()
}

/// Functions and variables at the top level: in a script, these are global. Each once, however often it is declared.
fn declared_in(program: &Program<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in &program.body {
        match statement {
            Statement::FunctionDeclaration(function) => names.extend(function.id.iter().map(|id| id.name.to_string())),
            Statement::VariableDeclaration(variables) if variables.kind == VariableDeclarationKind::Var => {
                let ids = variables
                    .declarations
                    .iter()
                    .filter_map(|declarator| match &declarator.id {
                        BindingPattern::BindingIdentifier(id) => Some(id.name.to_string()),
                        _ => None,
                    });
                names.extend(ids);
            }
            _ => {}
        }
    }
    names
}

fn imports_of(program: &Program<'_>) -> Vec<Import> {
    let mut imports = Imports(Vec::new());
    for statement in &program.body {
        match statement {
            Statement::ImportDeclaration(import) => imports.add(&import.source),
            Statement::ExportAllDeclaration(export) => imports.add(&export.source),
            Statement::ExportFromDeclaration(export) => imports.add(&export.source),
            _ => {}
        }
    }
    imports.visit_program(program);
    imports.0
}

struct Imports(Vec<Import>);

impl Imports {
    fn add(&mut self, specifier: &StringLiteral<'_>) {
        self.0.push(Import {
            specifier: specifier.value.to_string(),
            offset: specifier.span.start,
        });
    }
}

impl<'a> Visit<'a> for Imports {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let Some(specifier) = call.common_js_require() {
            self.add(specifier);
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        if let Expression::StringLiteral(specifier) = &import.source {
            self.add(specifier);
        }
        walk::walk_import_expression(self, import);
    }
}

/// Turns `import` and `export` into calls and properties. What is imported stays bound to what is exported, as the
/// language has it, so that modules can import each other in a circle.
fn modules_to_functions<'a>(allocator: &'a Allocator, program: &mut Program<'a>) {
    let scoping = SemanticBuilder::new().build(program).semantic.into_scoping();
    ModuleRunnerTransform::new().transform(allocator, program, scoping);
    Renaming { allocator }.visit_program(program);
}

/// Gives things the names they have in the wrapper, and loads modules at once where the transform would wait for them.
struct Renaming<'a> {
    allocator: &'a Allocator,
}

impl<'a> VisitMut<'a> for Renaming<'a> {
    fn visit_identifier_reference(&mut self, reference: &mut IdentifierReference<'a>) {
        if let Some((_, ours)) = NAMES.iter().find(|(theirs, _)| reference.name == *theirs) {
            reference.name = (*ours).into();
        }
    }

    fn visit_expression(&mut self, expression: &mut Expression<'a>) {
        if let Expression::AwaitExpression(awaited) = expression
            && is_import(&awaited.argument)
        {
            *expression = awaited.argument.take_in(&self.allocator);
        }
        walk_mut::walk_expression(self, expression);
    }
}

fn is_import(expression: &Expression<'_>) -> bool {
    let Expression::CallExpression(call) = expression else {
        return false;
    };
    call.callee.is_specific_id(NAMES[0].0)
}

fn print(program: &Program<'_>, path: &Path) -> (String, String) {
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(path.to_path_buf()),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let mappings = printed.map.map(|map| map.to_json().mappings).unwrap_or_default();
    (printed.code, mappings)
}
