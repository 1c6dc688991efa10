//! The recipe: everything that determines a cell's result, visible in one place.

use std::collections::BTreeMap;

use artifacts::{ActionKey, Digest};
use serde::{Deserialize, Serialize};

use super::encoding::{ENCODING_VERSION, Encoder, HeadParts, key_of, value_digest};
use crate::stage::{CellStatus, Coordinates, Json};

/// Everything that determines a cell's result. A kind's result must not depend on anything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The version of the encoding.
    pub format: u32,
    /// The kind's name.
    pub kind: String,
    /// The kind's semantic version.
    pub semantic_version: u32,
    /// The experiment's seed, which every cell sees.
    pub seed: u64,
    /// The canonical parameters.
    pub parameters: Json,
    /// The coordinates that distinguish replicates.
    pub replicate: Coordinates,
    /// The needed stages, in declaration order.
    pub inputs: Vec<RecipeInput>,
    /// The identity facets of the machine.
    pub facets: BTreeMap<String, Json>,
    /// For kinds that see the study: the identity of what they see.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub study: Option<StudyIdentity>,
}

/// A cell's inputs from one needed stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecipeInput {
    /// The stage's name.
    pub stage: String,
    /// Its cells in axis order, including missing ones.
    pub cells: Vec<RecipeCell>,
}

/// An input cell, present or known to be missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecipeCell {
    /// The coordinates.
    pub coordinates: Coordinates,
    /// The status.
    pub status: CellStatus,
    /// The reason if it is not ok.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The digest of its parameters; readers see only those of measurements.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parameters: Option<Digest>,
    /// The digests of its outputs, by name. If the cell is not ok, those of its evidence, if the reader reads it.
    pub outputs: BTreeMap<String, Digest>,
}

/// The identity of what a kind sees of the study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyIdentity {
    /// The digest of the experiment in canonical form.
    pub spec: Digest,
    /// The trail digest.
    pub trail: Digest,
}

impl Recipe {
    /// Returns the action key.
    pub fn key(&self) -> ActionKey {
        let parameters = value_digest(&self.parameters);
        let facets = facets_digest(&self.facets);
        key_of(HeadParts {
            kind: &self.kind,
            semantic_version: self.semantic_version,
            seed: self.seed,
            parameters: &parameters,
            replicate: &self.replicate,
            inputs: self
                .inputs
                .iter()
                .map(|input| (input.stage.as_str(), input.digest())),
            facets: &facets,
            study: self.study.as_ref().map(|s| (s.spec, s.trail)),
        })
    }

    /// Returns the format version of new recipes.
    pub const fn current_format() -> u32 {
        ENCODING_VERSION
    }
}

impl RecipeInput {
    /// Returns the digest of the list of cells (does not include the stage's name).
    pub fn digest(&self) -> Digest {
        let mut list = InputList::new(self.cells.len());
        for cell in &self.cells {
            let outputs = cell
                .outputs
                .iter()
                .map(|(name, digest)| (name.as_str(), *digest));
            list.push(
                &cell.coordinates,
                cell.status,
                cell.reason.as_deref(),
                cell.parameters.as_ref(),
                outputs,
            );
        }
        list.finish()
    }
}

/// Returns the digest of the facets.
pub(crate) fn facets_digest(facets: &BTreeMap<String, Json>) -> Digest {
    let mut encoder = Encoder::document("facets");
    encoder.length(facets.len());
    for (name, value) in facets {
        encoder.text(name);
        encoder.value(value);
    }
    encoder.finish()
}

/// Digests a list of input cells without building it.
pub(crate) struct InputList(Encoder);

impl InputList {
    pub(crate) fn new(cells: usize) -> Self {
        let mut encoder = Encoder::document("inputs");
        encoder.length(cells);
        Self(encoder)
    }

    /// Adds a cell; its outputs must be sorted by name.
    pub(crate) fn push<'a>(
        &mut self,
        coordinates: &Coordinates,
        status: CellStatus,
        reason: Option<&str>,
        parameters: Option<&Digest>,
        outputs: impl ExactSizeIterator<Item = (&'a str, Digest)>,
    ) {
        self.0.coordinates(coordinates);
        self.0.status(status);
        self.0.optional(reason, Encoder::text);
        self.0.optional(parameters, Encoder::digest);
        self.0.length(outputs.len());
        for (name, digest) in outputs {
            self.0.text(name);
            self.0.digest(&digest);
        }
    }

    pub(crate) fn finish(self) -> Digest {
        self.0.finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use artifacts::Scalar;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    pub(crate) fn sample() -> Recipe {
        Recipe {
            format: ENCODING_VERSION,
            kind: "load".into(),
            semantic_version: 1,
            seed: 164,
            parameters: json!({"workload": {"output_tokens": 64}, "requests": 16}),
            replicate: Coordinates(vec![("rep".into(), Scalar::Int(1))]),
            inputs: vec![RecipeInput {
                stage: "server".into(),
                cells: vec![RecipeCell {
                    coordinates: Coordinates(vec![(
                        "configuration".into(),
                        Scalar::Text("serial".into()),
                    )]),
                    status: CellStatus::Ok,
                    reason: None,
                    parameters: None,
                    outputs: BTreeMap::from([("server".into(), Digest::of(b"descriptor"))]),
                }],
            }],
            facets: BTreeMap::from([("cpu".into(), json!("model"))]),
            study: None,
        }
    }

    #[test]
    fn the_golden_key_does_not_move() {
        // A change here re-measures every study of every user: raise ENCODING_VERSION with it.
        assert_eq!(
            sample().key().to_string(),
            "b3:7dcda260dba6398f098ff10635456952274dff558f971dcf748aca6cd3a41a0d"
        );
    }

    /// Changes to one field each; together they cover every field of a recipe.
    type Change = (&'static str, fn(&mut Recipe));

    fn changes() -> Vec<Change> {
        vec![
            ("kind", |r| r.kind.push('x')),
            ("semantic_version", |r| r.semantic_version += 1),
            ("seed", |r| r.seed += 1),
            ("parameters", |r| r.parameters["requests"] = json!(17)),
            ("parameter type", |r| r.parameters["requests"] = json!(16.0)),
            ("replicate", |r| r.replicate.0[0].1 = Scalar::Int(2)),
            ("input stage", |r| r.inputs[0].stage.push('x')),
            ("input coordinates", |r| {
                r.inputs[0].cells[0].coordinates.0[0].1 = Scalar::Null;
            }),
            ("input status", |r| {
                r.inputs[0].cells[0].status = CellStatus::Failed;
            }),
            ("input reason", |r| {
                r.inputs[0].cells[0].reason = Some("why".into());
            }),
            ("input parameters", |r| {
                r.inputs[0].cells[0].parameters = Some(Digest::of(b""));
            }),
            ("input output", |r| {
                r.inputs[0].cells[0]
                    .outputs
                    .insert("server".into(), Digest::of(b"other"));
            }),
            ("input output name", |r| {
                r.inputs[0].cells[0].outputs =
                    BTreeMap::from([("x".into(), Digest::of(b"descriptor"))]);
            }),
            ("input cell", |r| {
                let cell = r.inputs[0].cells[0].clone();
                r.inputs[0].cells.push(cell);
            }),
            ("facets", |r| {
                r.facets.insert("gpu".into(), json!(null));
            }),
            ("study", |r| {
                r.study = Some(StudyIdentity {
                    spec: Digest::of(b"s"),
                    trail: Digest::of(b"t"),
                });
            }),
        ]
    }

    #[test]
    fn every_field_changes_the_key() {
        let mut keys = vec![sample().key()];
        for (name, change) in changes() {
            let mut recipe = sample();
            change(&mut recipe);
            let key = recipe.key();
            assert!(
                !keys.contains(&key),
                "a change of {name} gives a key seen before"
            );
            keys.push(key);
        }
    }

    #[test]
    fn the_order_of_mapping_keys_and_of_replicate_axes_does_not_change_the_key() {
        let mut other = sample();
        other.parameters = json!({"requests": 16, "workload": {"output_tokens": 64}});
        assert_eq!(other.key(), sample().key());
        let mut two = sample();
        two.replicate.0.push(("day".into(), Scalar::Int(3)));
        let mut swapped = two.clone();
        swapped.replicate.0.reverse();
        assert_eq!(two.key(), swapped.key());
    }

    #[test]
    fn a_recipe_survives_json() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), sample());
    }

    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-3i64..3).prop_map(|i| Json::from(i as f64 / 2.0)),
            "[a-c]{0,3}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|m| Json::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn keys_are_equal_if_and_only_if_parameters_are(a in value(), b in value()) {
            let key = |parameters: &Json| Recipe { parameters: parameters.clone(), ..sample() }.key();
            // `==` on JSON ignores the order of keys and distinguishes integers from floats, just as keys do.
            prop_assert_eq!(a == b, key(&a) == key(&b));
            prop_assert_eq!(key(&a), key(&a.clone()));
        }
    }
}
