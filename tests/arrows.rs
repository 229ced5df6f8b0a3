//! Checks the dependencies between modules by reading the code.
//!
//! launch → server → service → engine → {store, agents} → task → schema → bindings. A module may name what stands under
//! it, as far down as it likes, and nothing else. `task` is pure, and the two crates under `bindings` know no name of
//! the protocol.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// For each module of the root package, the other modules that it may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("schema", &[]),
    ("clock", &[]),
    ("protocol", &["schema"]),
    ("task", &["schema", "protocol"]),
    ("settings", &[]),
    ("memory", &[]),
    ("limits", &["memory"]),
    ("config", &["agents", "store", "limits", "memory", "settings", "protocol", "schema"]),
    ("auth", &["config", "protocol"]),
    ("telemetry", &["config"]),
    ("client", &["task", "schema", "protocol"]),
    ("card", &["config", "schema", "protocol"]),
    ("store", &["task", "schema", "protocol", "clock"]),
    ("agents", &["settings", "task", "schema", "protocol", "client"]),
    ("push", &["config", "store", "task", "schema", "protocol"]),
    ("engine", &["store", "agents", "limits", "push", "task", "schema", "protocol", "clock"]),
    (
        "service",
        &["engine", "store", "agents", "push", "auth", "card", "config", "task", "schema", "protocol", "clock"],
    ),
    (
        "server",
        &[
            "service",
            "engine",
            "store",
            "agents",
            "push",
            "auth",
            "card",
            "config",
            "telemetry",
            "task",
            "schema",
            "protocol",
            "clock",
        ],
    ),
    (
        "launch",
        &[
            "server",
            "service",
            "engine",
            "store",
            "agents",
            "push",
            "auth",
            "card",
            "config",
            "telemetry",
            "task",
            "schema",
            "protocol",
            "clock",
        ],
    ),
    (
        "cli",
        &[
            "launch",
            "server",
            "service",
            "engine",
            "store",
            "agents",
            "push",
            "auth",
            "card",
            "client",
            "config",
            "telemetry",
            "task",
            "schema",
            "protocol",
            "clock",
        ],
    ),
];

#[test]
fn every_module_names_only_modules_below_it() {
    let mut wrong = Vec::new();
    for file in sources("src") {
        let Some(module) = file.module() else { continue };
        let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("src/{module}: not in the picture; give it a line in MAY_NAME"));
            continue;
        };
        for named in file.named_modules() {
            let known = MAY_NAME.iter().any(|(name, _)| *name == named);
            if known && named != module && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: {module} must not name {named}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files of the store, each above those that it may name. A folder of the store is a backend.
const STORE: &[&str] = &[
    "lock", "error", "commits", "claim", "append", "rows", "list", "url", "job", "backend", "report", "scheme",
    BACKENDS, "registry", "queue", "handle", "writer",
];

/// The place of the backends among the files of the store.
const BACKENDS: &str = "(backends)";

/// The files and folders of the engine, in the same way.
const ENGINE: &[&str] = &[
    "error",
    "limits",
    "outcomes",
    "live",
    "finished",
    "folds",
    "spec",
    "cell",
    "flush",
    "run",
    "load",
    "last_turn",
    "recovery",
    "stream",
    "send",
    "cancel",
    "resume",
    "publish",
];

#[test]
fn no_file_of_the_store_or_the_engine_names_one_above_it() {
    no_file_names_one_above_it("store", STORE);
    no_file_names_one_above_it("engine", ENGINE);
}

fn no_file_names_one_above_it(module: &str, order: &[&str]) {
    let files = sources("src");
    let files: Vec<_> = files.iter().filter(|file| file.module().as_deref() == Some(module)).collect();
    let root = files.iter().find(|file| file.place.len() == 1).expect("the module's own file");
    let is_folder = |name: &str| files.iter().any(|file| file.path.starts_with(&format!("src/{module}/{name}/")));
    let level = |name: &str| {
        let listed = order.iter().position(|file| *file == name);
        listed.or_else(|| order.iter().position(|file| *file == BACKENDS && is_folder(name)))
    };
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.place.len() > 1 && !file.place.iter().any(|part| part == "tests")) {
        let Some(own) = level(&file.place[1]) else {
            wrong.push(format!("{}: not in the picture; give it a place in the order of {module}", file.path));
            continue;
        };
        for name in file.named_files() {
            // A type is named through the module's own file; what counts is where it is defined.
            let home = if level(&name).is_some() { Some(name.clone()) } else { root.exported_from(&name) };
            if home.as_deref().and_then(level).is_some_and(|named| named > own) {
                wrong.push(format!("{}: {} must not name {name}", file.path, file.place[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_allowed_dependencies_have_no_cycle() {
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while placed.len() < MAY_NAME.len() {
        let next =
            MAY_NAME.iter().find(|(name, under)| !placed.contains(name) && under.iter().all(|u| placed.contains(u)));
        placed.insert(next.unwrap_or_else(|| panic!("a cycle above {placed:?}")).0);
    }
}

#[test]
fn the_task_module_is_pure() {
    let impure =
        ["tokio", "futures", "std::fs", "std::io", "std::net", "std::process", "std::thread", "rusqlite", "::now("];
    for file in sources("src").into_iter().filter(|f| f.module().as_deref() == Some("task")) {
        for word in impure {
            assert!(!file.code.contains(word), "{} names {word}; the task module must be pure", file.path);
        }
    }
}

#[test]
fn the_bindings_contain_no_name_of_the_protocol() {
    for file in sources("bindings/src").into_iter().chain(sources("bindings/codegen/src")) {
        let lower = file.code.to_lowercase();
        for word in ["a2a", "agent-card", "agentcard", "crate::schema"] {
            assert!(!lower.contains(word), "{} says {word}", file.path);
        }
        // Modules and tools named after Rust's own tasks are no matter; any other such type would be the protocol's.
        let task =
            identifiers(&file.code).any(|w| (w.starts_with("Task") || w.starts_with("TASK")) && w != "TaskTracker");
        assert!(!task, "{} names a task", file.path);
    }
}

#[test]
fn every_file_states_its_subject_in_its_first_line() {
    for file in ["src", "bindings/src", "bindings/codegen/src", "tests", "build.rs"].into_iter().flat_map(sources) {
        assert!(file.text.starts_with("//! "), "{}: no `//!` in the first line", file.path);
    }
}

/// A Rust file.
struct Source {
    path: String,
    text: String,
    /// The text without comments and without unit tests, which may name any module.
    code: String,
    /// The module path in the crate: `["store", "sqlite", "read"]`.
    place: Vec<String>,
}

impl Source {
    /// Returns the top-level module that it belongs to, or `None` for the crate's own files.
    fn module(&self) -> Option<String> {
        self.place.first().cloned()
    }

    /// Returns the first name of every path that begins at the crate's root.
    fn named_modules(&self) -> BTreeSet<String> {
        self.names_behind(&["crate::".to_owned(), "super::".repeat(self.place.len())])
    }

    /// The first name of every path that begins at the module of the root that the file belongs to.
    fn named_files(&self) -> BTreeSet<String> {
        let Some(module) = self.module() else { return BTreeSet::new() };
        self.names_behind(&[format!("crate::{module}::"), "super::".repeat(self.place.len() - 1)])
    }

    /// The file that a `pub use file::{...};` of this one takes a name from.
    fn exported_from(&self, name: &str) -> Option<String> {
        let uses = self.code.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(line, _)| line);
        uses.filter_map(|line| line.split_once("::"))
            .find(|(_, names)| identifiers(names).any(|exported| exported == name))
            .map(|(file, _)| file.to_owned())
    }

    fn names_behind(&self, roots: &[String]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for root in roots.iter().filter(|root| !root.is_empty()) {
            for (at, _) in self.code.match_indices(root.as_str()) {
                let rest = &self.code[at + root.len()..];
                match rest.strip_prefix('{') {
                    Some(group) => found.extend(first_names(group)),
                    None => found.extend(identifiers(rest).next().map(str::to_owned)),
                }
            }
        }
        found
    }
}

/// Returns the first names in a `use` group, given the text after its opening brace.
fn first_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if fresh && depth == 0 && c.is_ascii_alphabetic() => {
                names.extend(identifiers(&group[at..]).next().map(str::to_owned));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the Rust files in a folder of the repository, or a single file.
fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = root.join(folder);
    let mut files = Vec::new();
    collect(&base, &mut files);
    assert!(!files.is_empty(), "no Rust in {folder}");
    files.into_iter().map(|path| read(root, &base, &path)).collect()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder is read");
        entries.for_each(|entry| collect(&entry.expect("an entry is read").path(), files));
    } else if path.extension().is_some_and(|e| e == "rs") {
        files.push(path.to_owned());
    }
}

fn read(root: &Path, base: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("a source is read");
    let inside = path.strip_prefix(base).expect("it is in the folder").with_extension("");
    let mut place: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let tests = place.last().is_some_and(|last| last == "tests");
    if place.last().is_some_and(|last| last == "mod")
        || matches!(place.as_slice(), [one] if one == "lib" || one == "main")
    {
        place.pop();
    }
    let code = if tests { String::new() } else { without_tests_and_comments(&text) };
    let path = path.strip_prefix(root).expect("it is in the repository").display().to_string();
    Source { path, text, code, place }
}

/// Removes unit tests, which are at the end of a file, and comments. A `//` after a quote counts as part of a string.
fn without_tests_and_comments(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let code = text[..end].lines().map(|line| match line.find("//") {
        Some(at) if !line[..at].contains('"') => &line[..at],
        _ => line,
    });
    code.collect::<Vec<_>>().join("\n")
}
