//! The commit record: what a commit intends, as one custom entry; written first, read back in a live and a reopened session alike.

use super::context::Context;
use super::cut::Carrier;
use super::lattice::{Fold, Lattice};
use super::text::{BRIEF_VERSION, FoldKind, FoldName, json};
use super::unit::UnitKind;
use super::write::Edit;
use crate::journal::{Digest, Entry, Fields, Kind, Role};
use crate::window::Size;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The custom type of a commit record.
pub const COMMIT_RECORD: &str = "pi-fold.commit";

/// What no size in a record reaches: no line of a journal is that long.
const LARGEST: u64 = 1 << 40;

/// A commit record as read back. What cannot be read is no record: its edits then stand as anybody's.
pub(crate) struct Record {
    folds: Vec<Stored>,
    /// What made the commit.
    pub trigger: String,
    /// Characters a brief of its folds may have.
    bound: usize,
    /// What it opens, closes, dissolves.
    pub changes: Changes,
    /// What it promises to show of which entry, in the order of writing.
    pub promises: Vec<(String, Promise)>,
}

/// Folds that a record opens, closes, dissolves, by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub opens: Vec<String>,
    pub closes: Vec<String>,
    pub dissolves: Vec<String>,
}

impl Changes {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.lists().into_iter().any(|(_, ids)| !ids.is_empty())
    }

    fn lists(&self) -> [(&'static str, &[String]); 3] {
        [("opens", &self.opens), ("closes", &self.closes), ("dissolves", &self.dissolves)]
    }
}

/// What a record promises to show of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// SHA-256 of the content as written; `None` omits the entry.
    pub digest: Option<Digest>,
    /// Size of what is shown then.
    pub size: Size,
    /// Head and tail in bytes, where the content is the original clipped.
    pub clip: Option<(usize, usize)>,
}

/// A fold with the units it claims and the digests its record holds for its parts.
type Claim = (Fold, BTreeSet<usize>, Vec<Digest>);

struct Stored {
    id: String,
    kind: FoldKind,
    name: FoldName,
    carrier: String,
    parts: Vec<String>,
    digests: Vec<Digest>,
    children: Vec<String>,
    brief: Option<Arc<str>>,
}

impl Record {
    /// Writes the data of a record.
    pub fn write(context: &Context, trigger: &str, bound: usize, folds: &[(Fold, Vec<FoldName>)], edits: &[Edit], changes: &Changes) -> String {
        let mut data = format!("{{\"v\":1,\"trigger\":\"{trigger}\",\"brief_version\":{BRIEF_VERSION},\"bound\":{bound},\"folds\":[");
        let id = |at: usize| json(context.entries[at].id());
        let comma = |index: usize| if index == 0 { "" } else { "," };
        for (index, (fold, children)) in folds.iter().enumerate() {
            let (kind, carrier) = (fold.kind.name(), id(fold.carrier.position()));
            let _ = write!(data, "{}{{\"id\":\"{}\",\"kind\":\"{kind}\",\"carrier\":{carrier},\"parts\":[", comma(index), fold.id);
            for (index, &at) in fold.parts.iter().enumerate() {
                data.extend([comma(index), "[", &id(at), ",\"", context.entries[at].digest().hex().as_str(), "\"]"]);
            }
            data.push(']');
            if !children.is_empty() {
                data.push_str(",\"children\":[");
                for (index, (child, name)) in fold.children.iter().zip(children).enumerate() {
                    let _ = write!(data, "{}[\"{child}\",\"{}\"]", comma(index), name.digest());
                }
                data.push(']');
            }
            if let Some(brief) = &fold.brief {
                let _ = write!(data, ",\"brief\":{}", json(brief));
            }
            data.push('}');
        }
        data.push_str("],\"edits\":[");
        for (index, edit) in edits.iter().enumerate() {
            data.extend([comma(index), "{\"target\":", &id(edit.at)]);
            if let Some(content) = &edit.content {
                let _ = write!(data, ",\"sha256\":\"{}\",\"bytes\":{}", Digest::of(content.as_bytes()), edit.size.bytes);
                if edit.size.images > 0 {
                    let _ = write!(data, ",\"images\":{}", edit.size.images);
                }
            }
            if let Some((head, tail)) = edit.clip {
                let _ = write!(data, ",\"clip\":[{head},{tail}]");
            }
            data.push('}');
        }
        data.push(']');
        for (list, ids) in changes.lists().into_iter().filter(|(_, ids)| !ids.is_empty()) {
            let _ = write!(data, ",\"{list}\":{}", serde_json::Value::from(ids));
        }
        data.push('}');
        data
    }

    /// Reads a record; `None` if the entry is none, or names a fold by other parts than its id stands for.
    pub fn parse(entry: &Entry) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Data {
            v: u32,
            #[serde(default)]
            trigger: String,
            folds: Vec<FoldData>,
            #[serde(default)]
            bound: usize,
            edits: Vec<EditData>,
            #[serde(default)]
            opens: Vec<String>,
            #[serde(default)]
            closes: Vec<String>,
            #[serde(default)]
            dissolves: Vec<String>,
        }
        #[derive(serde::Deserialize)]
        struct EditData {
            target: String,
            sha256: Option<Sha>,
            #[serde(default)]
            bytes: u64,
            #[serde(default)]
            images: u64,
            clip: Option<(usize, usize)>,
        }
        #[derive(serde::Deserialize)]
        struct FoldData {
            id: String,
            kind: String,
            carrier: String,
            parts: Vec<(String, Sha)>,
            #[serde(default)]
            children: Vec<(String, Sha)>,
            brief: Option<String>,
        }
        let data: Data = serde_json::from_str(Fields::parse(entry.line())?.raw("data")?).ok().filter(|data: &Data| data.v == 1)?;
        let fold = |data: FoldData| {
            let kind = [FoldKind::Tool, FoldKind::Span, FoldKind::Consolidated].into_iter().find(|kind| kind.name() == data.kind)?;
            let name = FoldName::of(kind, pairs(&data.parts), pairs(&data.children));
            if name.id(data.id.len().saturating_sub(2)).as_str() != data.id {
                return None;
            }
            let (parts, digests) = data.parts.into_iter().map(|(id, Sha(digest))| (id, digest)).unzip();
            Some(Stored {
                id: data.id,
                kind,
                name,
                carrier: data.carrier,
                parts,
                digests,
                children: data.children.into_iter().map(|(id, _)| id).collect(),
                brief: data.brief.filter(|text| !text.trim().is_empty()).map(Arc::from),
            })
        };
        let folds = data.folds.into_iter().map(fold).collect::<Option<_>>()?;
        let promise = |data: EditData| {
            let digest = data.sha256.map(|Sha(digest)| digest);
            if data.bytes.max(data.images) >= LARGEST {
                return None;
            }
            let size = digest.map_or(Size::default(), |_| Size { bytes: data.bytes, images: data.images });
            Some((data.target, Promise { digest, size, clip: data.clip }))
        };
        let promises = data.edits.into_iter().map(promise).collect::<Option<_>>()?;
        let changes = Changes { opens: data.opens, closes: data.closes, dissolves: data.dissolves };
        Some(Record { folds, trigger: data.trigger, bound: data.bound, changes, promises })
    }

    /// The folds it makes, with the units each claims, as far as they fit the branch; `None` if one does not.
    /// `folded` are the parts of folds already.
    pub fn folds(&self, context: &Context, lattice: &Lattice, folded: &BTreeMap<usize, Digest>) -> Option<Vec<Claim>> {
        let mut out: Vec<Claim> = Vec::new();
        // Where each of them stands in `out`.
        let mut made: BTreeMap<&str, usize> = BTreeMap::new();
        // A fold has one parent and an entry is a part of one fold, or nothing that walks them would end.
        let (mut contained, mut parts): (BTreeSet<&str>, BTreeSet<usize>) = Default::default();
        for stored in &self.folds {
            let known = |child: &String| made.get(child.as_str()).map(|&at| &out[at].0).or_else(|| lattice.folds.get(child.as_str()));
            let (fold, units) = stored.on(context, known, self.bound)?;
            let consolidates = fold.kind == FoldKind::Consolidated;
            // One that was dissolved may be made again by this record itself.
            let turned = |child: &str| lattice.open.contains_key(child) || (lattice.dissolved.contains(child) && !made.contains_key(child));
            let fresh = |child: &String| !lattice.parents.contains_key(child.as_str()) && !turned(child);
            let children = stored.children.iter().all(|child| fresh(child) && contained.insert(child));
            let parted = fold.parts.windows(2).all(|pair| pair[0] < pair[1]) && fold.parts.iter().all(|at| parts.insert(*at));
            let free = fold.parts.iter().all(|at| !folded.contains_key(at));
            if !children || !parted || !free || consolidates != (stored.children.len() >= 2) || (!consolidates && !stored.children.is_empty()) {
                return None;
            }
            made.insert(&stored.id, out.len());
            out.push((fold, units, stored.digests.clone()));
        }
        Some(out)
    }
}

/// A fold as a record names it, whether or not the record counts on its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How it is addressed.
    pub id: String,
    /// What it is.
    pub kind: FoldKind,
    /// The entries it hides itself, each with the digest that its line had.
    pub parts: Vec<(String, Digest)>,
    /// Ids of the folds it contains, which hide more.
    pub children: Vec<String>,
}

/// The folds that a commit record names, for who looks after originals rather than after a window. `None` if the entry is no record, one of
/// another version, or names a fold by other parts than its id stands for.
///
/// ```
/// use fold_runtime::{fold::recorded, journal::Entry};
/// let entry = Entry::parse(r#"{"type":"custom","id":"x","parentId":null,"customType":"pi-fold.commit","data":{"v":1,"folds":[],"edits":[]}}"#)?;
/// assert_eq!(recorded(&entry), Some(Vec::new()));
/// # Ok::<(), fold_runtime::journal::EntryError>(())
/// ```
pub fn recorded(entry: &Entry) -> Option<Vec<Recorded>> {
    if !matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD) {
        return None;
    }
    let fold = |stored: Stored| Recorded {
        id: stored.id,
        kind: stored.kind,
        parts: stored.parts.into_iter().zip(stored.digests).collect(),
        children: stored.children,
    };
    Some(Record::parse(entry)?.folds.into_iter().map(fold).collect())
}

fn pairs(list: &[(String, Sha)]) -> impl Iterator<Item = (&str, Digest)> {
    list.iter().map(|(id, Sha(digest))| (id.as_str(), *digest))
}

/// A digest as a record writes it.
struct Sha(Digest);

impl<'de> Deserialize<'de> for Sha {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl Visitor<'_> for Hex {
            type Value = Sha;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Sha, E> {
                Digest::parse(text).map(Sha).ok_or_else(|| E::custom("no digest"))
            }
        }
        deserializer.deserialize_str(Hex)
    }
}

impl Stored {
    fn on<'a>(&self, context: &Context, known: impl Fn(&String) -> Option<&'a Fold>, bound: usize) -> Option<(Fold, BTreeSet<usize>)> {
        let parts: Vec<usize> = self.parts.iter().map(|id| context.by_id.get(id).copied()).collect::<Option<_>>()?;
        let id = self.name.id(self.id.len() - 2);
        let children: Vec<&Fold> = self.children.iter().map(known).collect::<Option<_>>()?;
        let at = context.by_id.get(&self.carrier).copied()?;
        let carries = context.unit_of[at]?;
        let carrier = match context.entries[at].kind() {
            Kind::Message(Role::ToolResult { .. }) => {
                let batch = &context.units[carries];
                let results = batch.entries.get(1..).filter(|_| batch.kind == UnitKind::Batch)?;
                Carrier::Result { answer: batch.entries[0], result: at, others: results.iter().copied().filter(|&other| other != at).collect() }
            }
            Kind::Message(Role::User) => Carrier::User(at),
            Kind::CustomMessage => Carrier::Custom(at),
            _ => return None,
        };
        let mut units = BTreeSet::new();
        for &at in &parts {
            // A user message that a fold hides is ripe like every other part, but no unit of its claim.
            let unit = context.unit_of[at]?;
            match context.units[unit].kind {
                UnitKind::User => {}
                kind if kind.is_folded() => _ = units.insert(unit),
                _ => return None,
            }
        }
        let of_children = children.iter().flat_map(|child| [child.units.0, child.units.1]);
        let (first, last) = of_children
            .clone()
            .chain(units.iter().copied())
            .fold(None, |range: Option<(usize, usize)>, unit| Some(range.map_or((unit, unit), |(first, last)| (first.min(unit), last.max(unit)))))?;
        let hidden = children.iter().map(|child| (child.first, child.last)).chain(parts.iter().map(|&at| (at, at)));
        let (first_hidden, last_hidden) = hidden.fold((usize::MAX, 0), |(first, last), (from, to)| (first.min(from), last.max(to)));
        let fold = Fold {
            id,
            name: self.name,
            kind: self.kind,
            depth: 1 + children.iter().map(|child| child.depth).max().unwrap_or(0),
            carrier,
            children: children.iter().map(|child| child.id.clone()).collect(),
            units: (first, last),
            placeholder: 0,
            entries: parts.len() + children.iter().map(|child| child.entries).sum::<usize>(),
            first: first_hidden,
            last: last_hidden,
            bound,
            gist: children.first().map_or_else(|| super::mint::gist_of(context, units.iter().copied()), |child| child.gist.clone()),
            brief: self.brief.clone(),
            parts,
        };
        Some((fold, units))
    }
}
