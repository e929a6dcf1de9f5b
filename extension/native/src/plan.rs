//! Decisions as JSON text.

use fold_runtime::session::{Commit, Decision, Draft, OverFence};
use serde_json::{Value, json};

/// A list of drafts, as the host takes them. The contents in them are JSON text already, and stay as they are.
pub fn drafts(drafts: &[Draft]) -> String {
    let list: Vec<String> = drafts.iter().map(|draft| format!("{{{}}}", draft.fields())).collect();
    format!("[{}]", list.join(","))
}

/// What a boundary decided: `kind`, `drafts`, how many edits are `left`, and what the host has to know of a commit.
pub fn decision(decision: &Decision) -> String {
    let (kind, list, rest): (&str, &[Draft], Value) = match decision {
        Decision::Quiet => ("quiet", &[], json!({})),
        Decision::Deferred(deferral) => ("deferred", &[], json!({ "reason": deferral.reason() })),
        Decision::Notice { draft } => ("notice", std::slice::from_ref(draft), json!({})),
        Decision::Recovery(recovery) => {
            ("recovery", &recovery.drafts, json!({ "left": recovery.left, "reason": recovery.deferral.map(|deferral| deferral.reason()) }))
        }
        Decision::Commit(commit) => ("commit", &commit.drafts, of_commit(commit)),
    };
    let rest = rest.to_string();
    let rest = rest.trim_start_matches('{').trim_end_matches('}');
    let comma = if rest.is_empty() { "" } else { "," };
    format!(r#"{{"kind":"{kind}","drafts":{}{comma}{rest}}}"#, drafts(list))
}

/// Adds a field, whose value is JSON text, to an object that has some.
pub fn add(object: &mut String, name: &str, value: &str) {
    object.truncate(object.len() - 1);
    object.extend([",\"", name, "\":", value, "}"]);
}

fn of_commit(commit: &Commit) -> Value {
    json!({
        "trigger": commit.trigger.name(),
        "records": commit.records().len(),
        "asksAgain": commit.asks_again(),
        "left": commit.left,
        "before": commit.before,
        "target": commit.target,
        "after": commit.after,
        "folds": commit.folds,
        "refolded": commit.refolded,
        "clips": commit.clips,
    })
}

/// Targets and contents to lay over the branch, and why the request must not leave, if it must not.
pub fn request(overlay: &[(&str, Option<&str>)], lost: &[&str], fence: Option<&OverFence>) -> String {
    let edit = |(target, content): &(&str, Option<&str>)| format!("[{},{}]", Value::from(*target), content.unwrap_or("null"));
    let edits: Vec<String> = overlay.iter().map(edit).collect();
    let stopped = fence.map(ToString::to_string);
    format!(r#"{{"overlay":[{}],"lost":{},"stopped":{}}}"#, edits.join(","), Value::from(lost), Value::from(stopped))
}
