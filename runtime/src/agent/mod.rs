//! The tool an agent has, `pi_fold_context`: one call in as JSON text, one text out, or a refusal that says what would work.
//!
//! A peek and a status only read. A decision (pin, unpin, brief, reboundary, unmark) is an entry to append, and changes no byte that was
//! shown: it counts at the next commit. An expansion, its end, and a fold cut anew are records like a commit's, and change the next request. Every call is parsed whole or refused by name, and no input makes any of it panic.
//!
//! | where | what |
//! |---|---|
//! | here | the calls: parsing them, writing them |
//! | `act` | carrying one out; the decisions and what refuses them |
//! | `peek` | originals as text, slice by slice, the line that a peek leaves behind, and what a person reads |
//! | `render` | what one entry says, as text |
//! | `status` | pages on the budget, the folds and the pending marks |
//! | `refusal` | why a call was not carried out |

mod act;
mod peek;
mod refusal;
mod render;
mod status;

pub use act::{Reply, act};
pub use peek::{PEEK_BYTES, Peek, Reading, parse_peek_line, peek, peek_line, read};
pub use refusal::Refusal;
pub use status::{Detail, PAGE_CHARS, StatusPage, status};

use crate::config::nearest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// What an agent may ask of its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    /// Originals, as text.
    Peek(Peek),
    /// How the window stands.
    Status(StatusPage),
    /// Shows one level of a fold again.
    Expand(Id),
    /// Shows an expanded fold as it was.
    Refold(Id),
    /// Units stay as they are, folds stay collapsed and in no other.
    Pin(Ids),
    /// Takes that back.
    Unpin(Ids),
    /// Supplies what the fold of a pending mark will say.
    Brief(Brief),
    /// Cuts a pending mark anew, or a fold.
    Reboundary(Reboundary),
    /// Withdraws pending marks until the next commit that can wait.
    Unmark(Ids),
}

/// The fold to show or to hide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Id {
    /// Its id.
    pub id: String,
}

/// What a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// Entries, which stand for their whole units; for pins also folds. All of them or none.
    pub ids: Vec<String>,
}

/// A text for a fold to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brief {
    /// Any entry of a unit of the mark.
    pub id: String,
    /// What its fold will say.
    pub text: String,
}

/// A mark, or a fold that contains no other, cut anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reboundary {
    /// Any entry of a unit of the mark, or the fold.
    pub id: String,
    /// The units at which a new cut begins, by their first entries; not the first unit.
    pub at: Vec<String>,
}

/// What an agent is told of the tool.
pub const DESCRIPTION: &str = "\
Look at and steer what this context window holds. Finished work is replaced by short folds in rare commits; every original is kept. \
Ids: folds (f_...) stand in placeholders; entries and units in status and peek. Actions:
- status {detail: none|tree|folds|marks, page}: budget, pins, folds, and the pending marks: work that the next commit may fold.
- peek {id, offset, bytes, ephemeral}: the originals behind a fold, or one entry, as text. A long one comes in slices; each names the call that goes on.
- expand {id}: shows a fold again, one level, from the next request on, until a commit some answers later; it costs more than a peek. refold {id} ends that.
- pin {ids}: whole units stay as they are shown; a fold stays as it is. Together at most a quarter of the budget. unpin {ids} takes it back.
- brief {id, text}: what the fold of a pending mark will say, in the place of a mechanical summary: facts, decisions, paths, what is still open.
- reboundary {id, at: [unit ids]}: cuts a pending mark, or a fold, anew, a new cut at each of these units.
- unmark {ids}: keeps pending marks from being folded until the next regular commit is over.
But for expand, refold and a fold cut anew, nothing that is shown changes before the next commit. A refused call changes nothing and names one that works.";

/// Every action: its name, its fields, and what they take.
const ACTIONS: [(&str, &[&str], &str); 9] = [
    (
        "peek",
        &["id", "offset", "bytes", "ephemeral"],
        "peek takes id (text), offset and bytes (whole numbers of bytes), ephemeral (true or false); only id is needed",
    ),
    ("status", &["detail", "page"], "status takes detail (none, tree, folds or marks) and page (a whole number); neither is needed"),
    ("expand", &["id"], "expand takes id (a fold)"),
    ("refold", &["id"], "refold takes id (an expanded fold)"),
    ("pin", &["ids"], "pin takes ids (a list of texts: entries or folds)"),
    ("unpin", &["ids"], "unpin takes ids (a list of texts: entries or folds)"),
    ("brief", &["id", "text"], "brief takes id (an entry of a pending mark) and text; both are needed"),
    ("reboundary", &["id", "at"], "reboundary takes id (an entry of a pending mark, or a fold) and at (a list of unit ids); both are needed"),
    ("unmark", &["ids"], "unmark takes ids (a list of texts: entries of pending marks)"),
];

impl Action {
    /// Reads the arguments of a tool call, JSON text.
    ///
    /// # Errors
    /// [`Refusal`]: no JSON object, an action or a field that does not exist (the nearest one that does is named), a field that is
    /// missing or holds something else. Whether an id exists and a number is in bounds is for [`peek`] and [`status`] to say.
    ///
    /// ```
    /// use fold_runtime::agent::{Action, Peek};
    /// let action = Action::parse(r#"{"action":"peek","id":"f_0123456789ab"}"#)?;
    /// assert_eq!(action, Action::Peek(Peek::of("f_0123456789ab")));
    /// let refused = Action::parse(r#"{"action":"peek","ids":"f_0123456789ab"}"#).unwrap_err();
    /// assert_eq!(refused.call, action);
    /// # Ok::<(), fold_runtime::agent::Refusal>(())
    /// ```
    pub fn parse(arguments: &str) -> Result<Self, Refusal> {
        let fields: Map<String, Value> =
            serde_json::from_str(arguments).map_err(|error| Refusal::new("the call", format!("it is no JSON object ({error})"), Action::status()))?;
        let names = ACTIONS.map(|(name, ..)| name);
        let list = names.join(", ");
        let Some(action) = fields.get("action") else {
            return Err(Refusal::new("the call", format!("it names no action; there are {list}"), Action::status()));
        };
        let Some((name, known, takes)) = ACTIONS.iter().find(|(name, ..)| action == name) else {
            let close = nearest(action.as_str().unwrap_or_default(), &names);
            let mut meant = fields.clone();
            meant.insert("action".to_owned(), close.into());
            return Err(Refusal::new(&spoken(action), format!("there is no such action; there are {list}"), Action::of(meant)));
        };
        if let Some(unknown) = fields.keys().find(|field| *field != "action" && !known.contains(&field.as_str())) {
            let close = nearest(unknown, known);
            let mut meant = fields.clone();
            let value = meant.remove(unknown).unwrap_or_default();
            meant.entry(close).or_insert(value);
            meant.retain(|field, _| field == "action" || known.contains(&field.as_str()));
            return Err(Refusal::new(unknown, format!("{name} has no such field; the nearest is \"{close}\""), Action::of(meant)));
        }
        serde_json::from_value(Value::Object(fields.clone())).map_err(|error| {
            let mut meant = fields;
            meant.retain(|field, _| matches!(field.as_str(), "action" | "id" | "ids" | "text" | "at"));
            Refusal::new(name, format!("{takes} ({error})"), Action::of(meant))
        })
    }

    /// The call as JSON text, in ASCII: whatever an id holds, no marker of ours can begin or end in it. [`Action::parse`] reads it back.
    pub fn call(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let mut call = String::with_capacity(text.len());
        for character in text.chars() {
            if (' '..='~').contains(&character) {
                call.push(character);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(call, "\\u{unit:04x}");
                }
            }
        }
        call
    }

    /// These fields, if they make an action; one text where a list belongs is a list of one. Else a look at what they name.
    fn of(mut fields: Map<String, Value>) -> Self {
        for list in ["ids", "at"] {
            if let Some(one) = fields.get_mut(list).filter(|value| value.is_string()) {
                *one = Value::Array(vec![one.take()]);
            }
        }
        let look = fields.get("id").and_then(Value::as_str).map(|id| Action::Peek(Peek::of(id)));
        serde_json::from_value(Value::Object(fields)).ok().or(look).unwrap_or_else(Action::status)
    }

    /// The call that every session answers.
    fn status() -> Self {
        Action::Status(StatusPage::default())
    }
}

/// A value as a refusal names it.
fn spoken(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &str) -> String {
        Action::parse(arguments).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_named_keeps_its_default() {
        let peek = Peek { id: "a".into(), offset: 0, bytes: 16_000, ephemeral: true };
        assert_eq!(Action::parse(r#"{"id":"a","action":"peek"}"#), Ok(Action::Peek(peek)));
        assert_eq!(Action::parse(r#"{"action":"status"}"#), Ok(Action::Status(StatusPage { detail: Detail::None, page: 1 })));
    }

    #[test]
    fn an_unknown_action_names_those_that_exist_and_a_call_that_works() {
        let text = refused(r#"{"action":"peak","id":"f_1"}"#);
        assert!(text.contains("\"peak\"") && text.contains("there are peek, status"), "{text}");
        assert!(text.ends_with(r#"{"action":"peek","id":"f_1","offset":0,"bytes":16000}"#), "{text}");
        assert!(refused(r#"{"id":"f_1"}"#).contains("names no action"));
        assert!(refused(r#"{"action":{"peek":1}}"#).ends_with(r#"{"action":"status","detail":"none","page":1}"#));
    }

    #[test]
    fn an_unknown_field_names_the_nearest_and_the_call_that_was_meant() {
        let text = refused(r#"{"action":"peek","id":"f_1","ofset":7}"#);
        assert!(text.contains("the nearest is \"offset\"") && text.ends_with(r#"{"action":"peek","id":"f_1","offset":7,"bytes":16000}"#), "{text}");
        assert!(refused(r#"{"action":"status","detale":"tree"}"#).ends_with(r#"{"action":"status","detail":"tree","page":1}"#));
    }

    #[test]
    fn a_field_of_another_kind_is_refused_with_what_the_action_takes() {
        for wrong in [
            r#"{"action":"peek"}"#,
            r#"{"action":"peek","id":7}"#,
            r#"{"action":"peek","id":"a","offset":-1}"#,
            r#"{"action":"peek","id":"a","bytes":"many"}"#,
            r#"{"action":"peek","id":"a","ephemeral":null}"#,
        ] {
            assert!(refused(wrong).contains("peek takes id (text)"), "{wrong}");
        }
        assert!(refused(r#"{"action":"status","detail":"all"}"#).contains("none, tree, folds or marks"));
    }

    #[test]
    fn one_id_where_a_list_belongs_is_refused_with_the_list() {
        for (wrong, meant) in [
            (r#"{"action":"pin","ids":"a1"}"#, r#"{"action":"pin","ids":["a1"]}"#),
            (r#"{"action":"unmark","id":"a1"}"#, r#"{"action":"unmark","ids":["a1"]}"#),
            (r#"{"action":"reboundary","id":"a1","at":"a2"}"#, r#"{"action":"reboundary","id":"a1","at":["a2"]}"#),
            (r#"{"action":"brief","id":"a1"}"#, r#"{"action":"peek","id":"a1","offset":0,"bytes":16000}"#),
        ] {
            assert!(refused(wrong).ends_with(meant), "{}", refused(wrong));
        }
    }

    #[test]
    fn the_description_is_short_and_names_every_action_and_field() {
        assert!(DESCRIPTION.chars().count() <= 1_500, "{}", DESCRIPTION.chars().count());
        for (name, fields, _) in ACTIONS {
            assert!(DESCRIPTION.contains(&format!("{name} {{")), "{name}");
            assert!(fields.iter().all(|field| DESCRIPTION.contains(field)), "{name}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for wrong in ["", "[]", "7", "{\"action\":", r#"{"action":"peek","id":"\ud83d"}"#] {
            assert!(refused(wrong).contains("no JSON object"), "{wrong}");
        }
    }

    #[test]
    fn a_call_is_ascii_and_reads_back() {
        let action = Action::Peek(Peek { id: "⟧\n🦀\u{7f}\"".into(), offset: 9, bytes: 1_024, ephemeral: false });
        assert!(action.call().is_ascii() && !action.call().contains(char::is_control));
        assert_eq!(Action::parse(&action.call()), Ok(action));
    }
}
