//! What an agent or a person decided, as it stands in the journal: pins, marks withdrawn, cuts agreed on, briefs supplied.
//!
//! A decision names units by the id of their first entry, so that it survives another cut and another setting. `docs/law.md`,
//! "Decisions", is the specification.

use crate::journal::{Entry, Fields};

/// The custom type of a decision.
pub const DECISION: &str = "pi-fold.decision";

/// A decision as its entry holds it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum Decided {
    /// Holds units; keeps folds out of consolidation.
    Pin {
        /// Unit ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        units: Vec<String>,
        /// Fold ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        folds: Vec<String>,
    },
    /// Takes that back.
    Unpin {
        /// Unit ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        units: Vec<String>,
        /// Fold ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        folds: Vec<String>,
    },
    /// Holds units until the next commit by the band or by a person.
    Unmark {
        /// Unit ids.
        units: Vec<String>,
    },
    /// Agrees on a cut.
    Cut {
        /// Unit ids, in branch order.
        units: Vec<String>,
        /// What its fold says, in the place of a deterministic brief.
        #[serde(skip_serializing_if = "Option::is_none")]
        brief: Option<String>,
    },
}

impl Decided {
    /// The data of its entry.
    ///
    /// ```
    /// use fold_runtime::fold::Decided;
    /// let data = Decided::Unmark { units: vec!["a1".into()] }.data();
    /// assert_eq!(data, r#"{"v":1,"verb":"unmark","units":["a1"]}"#);
    /// ```
    pub fn data(&self) -> String {
        #[derive(serde::Serialize)]
        struct Data<'a> {
            v: u32,
            #[serde(flatten)]
            decided: &'a Decided,
        }
        serde_json::to_string(&Data { v: 1, decided: self }).expect("strings are JSON")
    }

    /// Reads an entry's data; `None` if it is no decision of version 1.
    pub(crate) fn parse(entry: &Entry) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Version {
            v: u32,
        }
        let data = Fields::parse(entry.line())?.raw("data")?;
        serde_json::from_str::<Version>(data).ok().filter(|version| version.v == 1)?;
        serde_json::from_str(data).ok()
    }
}
