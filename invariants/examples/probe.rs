//! probe
use fold_invariants::reference::{Verdict, decide};
use fold_runtime::{
    config::Settings,
    journal::Entry,
    session::{Decision, Draft, Session},
};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let settings = Settings::parse(&args[2]).unwrap();
    let window: u64 = args[3].parse().unwrap();
    let branch: Vec<Entry> = std::fs::read_to_string(&args[1]).unwrap().lines().map(|l| Entry::parse(l).unwrap()).collect();
    let s = Session::open(&branch, &settings, window).unwrap();
    if std::env::var("FULL").is_ok() {
        if let Verdict::Commit { drafts, .. } = decide(&branch, &settings, window) {
            for d in drafts {
                println!("{d:?}");
            }
        }
    }
    let show = |d: &[Draft]| {
        d.iter()
            .map(|d| match d {
                Draft::Custom { data, .. } => format!("{:?}", &data[..data.find("edits").unwrap_or(0)].len()),
                Draft::ContextEdit { target, replacement } => format!("{target}{}", if replacement.is_some() { "=" } else { "-" }),
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    println!("occ {}", s.occupancy());
    match s.boundary() {
        Decision::Commit(c) => println!("runtime {} {} {} {}", c.before, c.target, c.after, show(&c.drafts)),
        o => println!("runtime {o:?}"),
    }
    match decide(&branch, &settings, window) {
        Verdict::Commit { before, target, after, drafts, .. } => println!("ref     {before} {target} {after} {}", show(&drafts)),
        o => println!("ref {o:?}"),
    }
}
