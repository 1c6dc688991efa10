//! The differences between two cells: the settings of every stage behind them and the findings there, leaf by leaf, and
//! whether each difference was planned.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use artifacts::{Digest, Store};
use pipeline::Media;
use pipeline::lock::{LockCell, LockStage};
use pipeline::record::Record;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue::record_of;
use crate::error::Failure;
use crate::study::Study;

/// The status of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// Nobody chose it, so it may be the cause of the result.
    Confound,
    /// One side does not report it.
    Unknown,
    /// It follows from choices of the experiment.
    Follows,
    /// The experiment chose it.
    Planned,
}

/// A leaf that differs between two cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Facet {
    /// The stage, and the output if the leaf is a finding and not a setting.
    pub(crate) at: String,
    /// The dotted path.
    pub(crate) key: String,
    pub(crate) a: Option<Value>,
    pub(crate) b: Option<Value>,
    pub(crate) status: Status,
}

/// The parts of descriptors that follow from the settings of their stage; the rest was found on the machine.
const MADE: [&str; 12] = [
    "engine",
    "model",
    "model_name",
    "settings",
    "command",
    "limits",
    "api",
    "endpoints",
    "counters",
    "version",
    "cpu_flags",
    "software",
];

/// The parts of a role that follow from the settings of its stage.
const OF_ROLES: [&str; 2] = ["count", "gpus"];

type Leaves = BTreeMap<(String, String), Value>;

/// The settings and findings behind one cell.
#[derive(Default)]
struct Behind {
    set: Leaves,
    leaves: Leaves,
}

/// A leaf that differs between matching cells, with the values of the first pair that differs in it.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Repeated {
    #[serde(flatten)]
    pub(crate) facet: Facet,
    /// The number of pairs that differ in it.
    pub(crate) pairs: usize,
    /// The number of different pairs of values.
    pub(crate) values: usize,
    /// The coordinates of the first pair that differs in it.
    pub(crate) first: [String; 2],
}

/// What differs between pairs of matching cells.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Confounds first.
    pub(crate) facets: Vec<Repeated>,
    /// The number of pairs that were compared.
    pub(crate) pairs: usize,
    /// Why pairs were not compared: damage must not hide what differs between the others.
    pub(crate) unread: BTreeSet<String>,
}

/// Returns every leaf in which the two cells of a pair differ, over all pairs. A server or a machine may differ in a few
/// pairs only, as after a driver was updated between two blocks.
pub(crate) fn between(
    study: &Study,
    stage: &LockStage,
    pairs: &[[&LockCell; 2]],
    store: &Store,
) -> Differences {
    let mut reader = Reader {
        study,
        store,
        seen: BTreeMap::new(),
    };
    let mut tally = Tally::default();
    let mut result = Differences::default();
    for pair in pairs {
        let [a, b] = pair.map(|cell| reader.of_cell(&stage.name, cell));
        match (a, b) {
            (Ok(a), Ok(b)) => {
                result.pairs += 1;
                tally.add(of_pair(&a, &b), pair.map(|cell| &cell.coordinates));
            }
            (Err(failure), _) | (_, Err(failure)) => {
                result.unread.insert(failure.message);
            }
        }
    }
    result.facets = tally.facets();
    result
}

/// Returns every leaf in which two cells differ.
fn of_pair(a: &Behind, b: &Behind) -> Vec<Facet> {
    let planned = different(&a.set, &b.set, |_| Status::Planned);
    let is_planned = !planned.is_empty();
    let roles = [&a.leaves, &b.leaves].map(|leaves| {
        let roles = leaves
            .keys()
            .filter_map(|(at, key)| Some((at, role_of(key)?.0)));
        roles.collect::<BTreeSet<_>>()
    });
    let facets = different(&a.leaves, &b.leaves, |(at, key)| {
        let role = role_of(key);
        let own = role.map_or(key.as_str(), |(_, own)| own);
        let part = own.split('.').next().unwrap_or(own);
        // A role that only one side has was chosen with all that it consists of.
        let is_alone = role.is_some_and(|(name, _)| {
            let [a, b] = roles.each_ref().map(|all| all.contains(&(at, name)));
            a != b
        });
        let is_made = is_alone
            || !is_of_host(at, own) && MADE.contains(&part)
            || role.is_some() && OF_ROLES.contains(&part)
            || own == "facets.engine";
        match is_planned && is_made {
            true => Status::Follows,
            false => Status::Confound,
        }
    });
    planned.into_iter().chain(facets).collect()
}

/// The differences of several pairs, by status and place.
#[derive(Default)]
struct Tally(BTreeMap<(Status, String, String), (Repeated, BTreeSet<String>)>);

impl Tally {
    fn add(&mut self, facets: Vec<Facet>, [a, b]: [&String; 2]) {
        for facet in facets {
            let place = (facet.status, facet.at.clone(), facet.key.clone());
            let both = format!("{:?}", (&facet.a, &facet.b));
            let new = || {
                let repeated = Repeated {
                    facet,
                    pairs: 0,
                    values: 0,
                    first: [a.clone(), b.clone()],
                };
                (repeated, BTreeSet::new())
            };
            let (repeated, values) = self.0.entry(place).or_insert_with(new);
            repeated.pairs += 1;
            values.insert(both);
        }
    }

    fn facets(self) -> Vec<Repeated> {
        let counted = |(repeated, values): (Repeated, BTreeSet<String>)| Repeated {
            values: values.len(),
            ..repeated
        };
        self.0.into_values().map(counted).collect()
    }
}

/// Splits a leaf of a server that consists of several roles: the role's name, and the leaf within the role, or within the
/// role's own server.
fn role_of(key: &str) -> Option<(&str, &str)> {
    let (name, own) = key.strip_prefix("roles.")?.split_once('.')?;
    Some((name, own.strip_prefix("server.").unwrap_or(own)))
}

fn is_of_host(at: &str, key: &str) -> bool {
    at.ends_with(".host") || key.starts_with("facets.")
}

fn different(a: &Leaves, b: &Leaves, status: impl Fn(&(String, String)) -> Status) -> Vec<Facet> {
    let keys: BTreeSet<&(String, String)> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    let facets = |key: &(String, String)| -> Vec<Facet> {
        let (one, other) = (a.get(key).cloned(), b.get(key).cloned());
        if let (Some(one), Some(other)) = (texts(one.as_ref()), texts(other.as_ref())) {
            return of_lists(key, [&one, &other], status(key));
        }
        let status = match (status(key), &one, &other) {
            // A setting that the experiment makes on one side only is also a choice.
            (Status::Planned, ..) => Status::Planned,
            (Status::Confound, Some(_), None) | (Status::Confound, None, Some(_)) => {
                Status::Unknown
            }
            (status, ..) => status,
        };
        vec![Facet {
            at: key.0.clone(),
            key: key.1.clone(),
            a: one,
            b: other,
            status,
        }]
    };
    differ.flat_map(facets).collect()
}

/// Returns the texts of a list of texts.
fn texts(value: Option<&Value>) -> Option<Vec<&str>> {
    let items = value?.as_array()?;
    items.iter().map(Value::as_str).collect()
}

/// Returns the differences between two lists of texts at a place. Their order says nothing, so that one package more does
/// not shift all others. A package with another version is a difference of its own, and those that only one side has
/// are one difference.
pub(crate) fn of_lists(
    (at, key): &(String, String),
    lists: [&[&str]; 2],
    status: Status,
) -> Vec<Facet> {
    let [a, b] = lists.map(|list| {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, version) in list.iter().map(|text| named(text)) {
            versions.entry(name).or_default().insert(version);
        }
        versions
    });
    let facet = |key: String, a: Value, b: Value| Facet {
        at: at.clone(),
        key,
        a: Some(a),
        b: Some(b),
        status,
    };
    let mut facets = Vec::new();
    let alone = |own: &BTreeMap<&str, BTreeSet<&str>>, other: &BTreeMap<&str, BTreeSet<&str>>| {
        let alone = own.iter().filter(|(name, _)| !other.contains_key(*name));
        let whole = |(name, versions): (&&str, &BTreeSet<&str>)| {
            let whole = |version: &&str| match *version {
                "" => (*name).to_owned(),
                version => format!("{name}-{version}"),
            };
            versions.iter().map(whole).collect::<Vec<String>>()
        };
        alone.flat_map(whole).collect::<Vec<String>>()
    };
    let (only_a, only_b) = (alone(&a, &b), alone(&b, &a));
    if !only_a.is_empty() || !only_b.is_empty() {
        facets.push(facet(key.clone(), only_a.into(), only_b.into()));
    }
    for (name, one) in &a {
        let Some(other) = b.get(name).filter(|other| *other != one) else {
            continue;
        };
        let joined = |versions: &BTreeSet<&str>| {
            let all: Vec<&str> = versions.iter().copied().collect();
            Value::from(all.join(", "))
        };
        facets.push(facet(format!("{key}.{name}"), joined(one), joined(other)));
    }
    facets
}

/// Replaces the differences between items of two lists of texts, which `diff` compares by place (`packages.7`), by those
/// between the lists.
pub(crate) fn by_name(facets: Vec<Facet>) -> Vec<Facet> {
    let mut lists: BTreeMap<(String, String), Vec<Facet>> = BTreeMap::new();
    let mut rest = Vec::new();
    for facet in facets {
        let is_text = |side: &Option<Value>| side.as_ref().is_none_or(Value::is_string);
        let list = facet.key.rsplit_once('.').filter(|(_, place)| {
            place.parse::<usize>().is_ok() && is_text(&facet.a) && is_text(&facet.b)
        });
        match list {
            Some((list, _)) => {
                let place = (facet.at.clone(), list.to_owned());
                lists.entry(place).or_default().push(facet);
            }
            None => rest.push(facet),
        }
    }
    for (place, items) in lists {
        let side = |pick: fn(&Facet) -> &Option<Value>| -> Vec<&str> {
            let values = items.iter().filter_map(|item| pick(item).as_ref());
            values.filter_map(Value::as_str).collect()
        };
        let (a, b) = (side(|item| &item.a), side(|item| &item.b));
        // An item that only the longer list has is reported by both sides.
        let status = items.iter().map(|item| item.status).min();
        rest.extend(of_lists(
            &place,
            [&a, &b],
            status.unwrap_or(Status::Confound),
        ));
    }
    rest.sort_by(|a, b| (a.status, &a.at, &a.key).cmp(&(b.status, &b.at, &b.key)));
    rest
}

/// Returns the name and the version of a package such as `torch-2.9.1`; any other text is a name without a version.
fn named(text: &str) -> (&str, &str) {
    let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let split = text.rsplit_once('-').filter(|(_, version)| digit(version));
    split.unwrap_or((text, ""))
}

/// Reads what is behind cells. Many cells read the same server, which is read once.
struct Reader<'a> {
    study: &'a Study,
    store: &'a Store,
    seen: BTreeMap<Digest, Rc<Behind>>,
}

impl Reader<'_> {
    /// Returns the settings and descriptors of a cell and of every cell that it read.
    fn of_cell(&mut self, stage: &str, cell: &LockCell) -> Result<Behind, Failure> {
        let Some(record) = record_of(self.store, stage, cell)? else {
            return Ok(Behind::default());
        };
        let mut behind = Behind::default();
        flatten(&record.recipe.parameters, &mut |key, value| {
            behind.set.insert((stage.to_owned(), key), value);
        });
        self.describe(stage, &record, &mut behind.leaves)?;
        for input in &record.recipe.inputs {
            // A cell that reads many others, such as an analysis, has no single cell behind it.
            let [only] = input.cells.as_slice() else {
                continue;
            };
            let study = self.study;
            let Ok((stage, cell)) = study.find(&input.stage, &only.coordinates.to_string()) else {
                continue;
            };
            let Some(digest) = cell.record else {
                continue;
            };
            let upstream = match self.seen.get(&digest) {
                Some(upstream) => Rc::clone(upstream),
                None => Rc::new(self.of_cell(&stage.name, cell)?),
            };
            behind.set.extend(upstream.set.clone());
            behind.leaves.extend(upstream.leaves.clone());
            self.seen.insert(digest, upstream);
        }
        Ok(behind)
    }

    /// Adds the descriptors of a cell.
    fn describe(&self, stage: &str, record: &Record, leaves: &mut Leaves) -> Result<(), Failure> {
        for (name, artifact) in &record.outputs {
            let describes = ["host", "environment", "server"].contains(&name.as_str());
            if artifact.media != Media::Json || !describes {
                continue;
            }
            let document = self.store.get_document(&artifact.digest)?;
            let document: Value = artifacts::json::parse(&document)
                .map_err(|e| Failure::store(format!("{stage}.{name}: {e}")))?;
            let at = format!("{stage}.{name}");
            flatten(&document, &mut |key, value| {
                // Values that vary from minute to minute, or that repeat another document, are not facets.
                let repeats = name.as_str() == "server"
                    && (key.starts_with("facets.") || key.starts_with("engine.definition"));
                if !key.starts_with("observations") && !repeats {
                    leaves.insert((at.clone(), key), value);
                }
            });
        }
        // The environment of a server repeats the facets of its machine.
        let (host, environment) = (format!("{stage}.host"), format!("{stage}.environment"));
        let repeated = leaves.clone();
        leaves.retain(|(at, key), value| {
            let same = (host.clone(), key.clone());
            *at != environment || !key.starts_with("facets.") || repeated.get(&same) != Some(value)
        });
        Ok(())
    }
}

/// Calls `hear` with every leaf and its dotted path.
fn flatten(value: &Value, hear: &mut impl FnMut(String, Value)) {
    fn below(path: &str, value: &Value, hear: &mut impl FnMut(String, Value)) {
        let join = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::Object(map) if !map.is_empty() => {
                map.iter().for_each(|(key, v)| below(&join(key), v, hear));
            }
            Value::Array(items) if is_command(items) => {
                options(items)
                    .into_iter()
                    .for_each(|(key, v)| hear(join(&key), v));
            }
            // Texts are compared as a set.
            Value::Array(items) if !items.is_empty() && !items.iter().all(Value::is_string) => {
                let numbered = items.iter().enumerate();
                numbered.for_each(|(i, v)| below(&join(&i.to_string()), v, hear));
            }
            leaf => hear(path.to_owned(), leaf.clone()),
        }
    }
    below("", value, hear);
}

/// Returns whether a list consists of texts, some of them options of a command.
fn is_command(items: &[Value]) -> bool {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    texts.is_some_and(|texts| texts.into_iter().any(is_option))
}

/// Returns whether an argument is an option; a negative number is not.
fn is_option(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_alphabetic()))
}

/// Returns the arguments of a command by option, and by place if they belong to none. An option that only one side has
/// then leaves the others alone, which their numbers would not.
fn options(items: &[Value]) -> Vec<(String, Value)> {
    let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
    let mut facets: Vec<(String, Value)> = Vec::new();
    let mut at = 0;
    while let Some(text) = texts.get(at) {
        let (mut key, mut value) = (at.to_string(), Value::from(*text));
        if is_option(text) {
            key = (*text).to_owned();
            value = match texts.get(at + 1).filter(|next| !is_option(next)) {
                Some(next) => Value::from(*next),
                None => Value::Bool(true),
            };
            at += usize::from(value != Value::Bool(true));
        }
        let same = facets.iter().filter(|(k, _)| *k == key).count();
        if same > 0 {
            key = format!("{key} ({})", same + 1);
        }
        facets.push((key, value));
        at += 1;
    }
    facets
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn leaves(value: &Value) -> Leaves {
        let mut leaves = Leaves::new();
        flatten(value, &mut |key, value| {
            leaves.insert(("serve".to_owned(), key), value);
        });
        leaves
    }

    #[test]
    fn commands_are_compared_by_option_and_not_by_place() {
        let command = |more: &[&str]| {
            let usual = ["serve", "--parallel", "8", "--no-cache", "--port", "-1"];
            let all: Vec<&str> = usual.iter().chain(more).copied().collect();
            leaves(&json!({"command": {"arguments": all}}))
        };
        let a = command(&[]);
        let keys: Vec<&str> = a.keys().map(|(_, key)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "command.arguments.--no-cache",
                "command.arguments.--parallel",
                "command.arguments.--port",
                "command.arguments.0"
            ]
        );
        let value = |leaves: &Leaves, option: &str| {
            let key = ("serve".to_owned(), format!("command.arguments.{option}"));
            leaves.get(&key).cloned()
        };
        assert_eq!(value(&a, "--port"), Some(json!("-1")));
        assert_eq!(value(&a, "--no-cache"), Some(json!(true)));
        let b = command(&["--lora", "x", "--lora", "y"]);
        let different: Vec<String> = different(&a, &b, |_| Status::Follows)
            .into_iter()
            .map(|facet| facet.key)
            .collect();
        assert_eq!(
            different,
            ["command.arguments.--lora", "command.arguments.--lora (2)"]
        );
    }

    #[test]
    fn packages_are_compared_by_name_and_not_by_place() {
        let a = leaves(
            &json!({"packages": ["annotated-types-0.7.0", "numpy-2.1.0", "vllm-0.11.0", "x-1.0", "x-2.0"]}),
        );
        let b = leaves(
            &json!({"packages": ["numpy-2.2.6", "sglang-0.5.3", "wheel", "annotated-types-0.7.0", "x-1.0", "x-2.0"]}),
        );
        let facets = different(&a, &b, |_| Status::Confound);
        let lines: Vec<_> = facets
            .iter()
            .map(|f| (f.key.as_str(), f.a.clone().unwrap(), f.b.clone().unwrap()))
            .collect();
        assert_eq!(
            lines,
            [
                (
                    "packages",
                    json!(["vllm-0.11.0"]),
                    json!(["sglang-0.5.3", "wheel"])
                ),
                ("packages.numpy", json!("2.1.0"), json!("2.2.6")),
            ]
        );
        assert!(facets.iter().all(|f| f.status == Status::Confound));
        let turned = leaves(
            &json!({"packages": ["x-2.0", "x-1.0", "vllm-0.11.0", "numpy-2.1.0", "annotated-types-0.7.0"]}),
        );
        assert_eq!(different(&a, &turned, |_| Status::Confound), []);
        // A side without any list does not report it.
        let silent = different(&a, &Leaves::new(), |_| Status::Confound);
        assert_eq!((silent.len(), silent[0].status), (1, Status::Unknown));
    }

    #[test]
    fn items_that_diff_compares_by_place_are_compared_by_name() {
        let facet = |key: &str, a: Value, b: Value, status: Status| Facet {
            at: "m.host".to_owned(),
            key: key.to_owned(),
            a: Some(a).filter(|v| !v.is_null()),
            b: Some(b).filter(|v| !v.is_null()),
            status,
        };
        let by_place = vec![
            facet("list.0", json!("x-1"), json!("y-1"), Status::Confound),
            facet("list.1", json!("y-1"), json!("z"), Status::Confound),
            facet("list.2", Value::Null, json!("x-2"), Status::Unknown),
            facet("cores.0", json!(4), json!(8), Status::Confound),
        ];
        assert_eq!(
            by_name(by_place),
            [
                facet("cores.0", json!(4), json!(8), Status::Confound),
                facet("list", json!([]), json!(["z"]), Status::Confound),
                facet("list.x", json!("1"), json!("2"), Status::Confound),
            ]
        );
    }

    #[test]
    fn every_leaf_that_differs_is_listed_and_one_that_a_side_lacks_is_unknown() {
        let a = leaves(&json!({"engine": {"version": 1}, "cpu": "x", "list": [1, 2]}));
        let b = leaves(&json!({"engine": {"version": 2}, "list": [1, 3]}));
        let facets = different(&a, &b, |_| Status::Confound);
        let statuses: Vec<(&str, Status)> =
            facets.iter().map(|f| (f.key.as_str(), f.status)).collect();
        assert_eq!(
            statuses,
            [
                ("cpu", Status::Unknown),
                ("engine.version", Status::Confound),
                ("list.1", Status::Confound)
            ]
        );
        let set = different(&a, &b, |_| Status::Planned);
        assert!(set.iter().all(|facet| facet.status == Status::Planned));
    }

    #[test]
    fn a_difference_in_some_of_the_pairs_is_listed_with_their_number() {
        let machine = |driver: &str, port: u64| Behind {
            set: leaves(&json!({"name": port})),
            leaves: leaves(&json!({"facets": {"driver": driver}})),
        };
        let mut tally = Tally::default();
        let places = [
            ["block=1,x=a", "block=1,x=b"],
            ["block=2,x=a", "block=2,x=b"],
        ];
        let pairs = [("550", 1), ("570", 2)];
        for ([a, b], (driver, port)) in places.iter().zip(pairs) {
            let differ = of_pair(&machine("550", 0), &machine(driver, port));
            tally.add(differ, [&(*a).to_owned(), &(*b).to_owned()]);
        }
        let lines = tally.facets();
        let short: Vec<_> = lines
            .iter()
            .map(|l| (l.facet.status, l.facet.key.as_str(), l.pairs, l.values))
            .collect();
        assert_eq!(
            short,
            [
                (Status::Confound, "facets.driver", 1, 1),
                (Status::Planned, "name", 2, 2)
            ]
        );
        assert_eq!(lines[0].first, places[1].map(str::to_owned));
    }

    #[test]
    fn a_role_is_judged_as_a_server_is_and_one_that_only_one_side_has_follows() {
        let side = |roles: Value| Behind {
            set: leaves(&json!({"roles": roles.as_object().unwrap().len()})),
            leaves: leaves(&json!({"roles": roles})),
        };
        let server = |slots: u64, driver: &str| json!({"count": 1, "server": {"limits": {"slots": slots}, "facets": {"driver": driver}}});
        let lines = |a: &Behind, b: &Behind| -> Vec<(Status, String)> {
            let facets = of_pair(a, b).into_iter();
            facets
                .filter(|f| f.key != "roles")
                .map(|f| (f.status, f.key))
                .collect()
        };
        let both = side(json!({"decode": server(8, "550"), "prefill": server(4, "550")}));
        let one = side(json!({"decode": server(16, "570")}));
        let line = |status, key: &str| (status, key.to_owned());
        assert_eq!(
            lines(&both, &one),
            [
                line(Status::Confound, "roles.decode.server.facets.driver"),
                line(Status::Follows, "roles.decode.server.limits.slots"),
                line(Status::Follows, "roles.prefill.count"),
                line(Status::Follows, "roles.prefill.server.facets.driver"),
                line(Status::Follows, "roles.prefill.server.limits.slots"),
            ]
        );
        // Without a planned difference, nothing follows.
        let unplanned = Behind {
            set: both.set.clone(),
            leaves: one.leaves.clone(),
        };
        let statuses: BTreeSet<Status> = lines(&both, &unplanned)
            .into_iter()
            .map(|(s, _)| s)
            .collect();
        assert!(!statuses.contains(&Status::Follows), "{statuses:?}");
    }
}
