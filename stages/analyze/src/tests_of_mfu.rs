//! `mfu` from the definitions of models and hardware.

use pipeline::{Control, Json, Library};
use serde_json::json;

use crate::kind::run;
use crate::tests::{canonical_with, inputs, store, stored, table};

/// A model with a parameter count, one without, and a device.
struct Shelf;

impl Library for Shelf {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        match (collection, name) {
            ("models", "eight") => Some(json!({"title": "Eight", "parameters": 8_000_000_000_u64})),
            ("models", "silent") => Some(json!({"title": "Silent"})),
            ("hardware", "a40") => Some(
                json!({"title": "NVIDIA A40", "peak-tflops": {"bfloat16": 149.7, "int8": 299.3}}),
            ),
            ("hardware", "unknown-peak") => Some(json!({"title": "?"})),
            _ => None,
        }
    }

    fn names(&self, collection: &str) -> Vec<String> {
        let names: &[&str] = match collection {
            "models" => &["eight", "silent"],
            "hardware" => &["a40", "unknown-peak"],
            _ => &[],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

fn tables(more: &Json) -> Json {
    let mut mfu = json!({"operator": "mfu", "from": "cells", "prefill": "not-counted"});
    for (key, value) in more.as_object().unwrap() {
        mfu[key] = value.clone();
    }
    json!({"cells": {"operator": "cell-summary"}, "mfu": mfu})
}

#[test]
fn definitions_give_the_figures_that_numbers_give() {
    let (_folder, store) = store();
    let made = |more: Json| {
        let parameters = canonical_with(&tables(&more), &Shelf).unwrap();
        let done = run(
            &parameters,
            &inputs(&store),
            stored(&store),
            164,
            &Control::quiet(),
        )
        .unwrap();
        let mfu = table(&done, "mfu");
        let float = |name: &str| mfu.float(name).unwrap();
        (
            float("model_parameters")[0],
            float("peak_flops")[0],
            float("mfu"),
            float("output_throughput"),
        )
    };
    let by_name = made(json!({"model": "eight", "hardware": "a40", "devices": 2}));
    assert_eq!(
        by_name,
        made(json!({"model-parameters": 8e9, "peak-flops": 149.7e12, "devices": 2}))
    );
    assert_eq!((by_name.0, by_name.1), (Some(8e9), Some(2.0 * 149.7e12)));
    for (mfu, rate) in by_name.2.iter().zip(&by_name.3) {
        let expected = 2.0 * 8e9 * rate.unwrap() / (2.0 * 149.7e12);
        assert!(
            (mfu.unwrap() / expected - 1.0).abs() < 1e-12,
            "{mfu:?} {expected}"
        );
    }
    let int8 = made(json!({"model": "eight", "hardware": "a40", "dtype": "int8"}));
    assert_eq!(int8.1, Some(299.3e12));
}

#[test]
fn an_unknown_or_repeated_name_is_reported_with_the_names_that_exist() {
    let message = |more: Json| {
        let problems = canonical_with(&tables(&more), &Shelf).unwrap_err();
        let messages = problems
            .iter()
            .map(|p| format!("{} — {}", p.message, p.hint.as_deref().unwrap_or("-")));
        messages.collect::<Vec<_>>().join("; ")
    };
    for (more, expected) in [
        (
            json!({"model": "eight", "hardware": "h900"}),
            "no hardware is named `h900` — the hardware definitions are `a40`, `unknown-peak`",
        ),
        (
            json!({"model": "eight", "hardware": "a41"}),
            "no hardware is named `a41` — did you mean `a40`?",
        ),
        (
            json!({"model": "eight", "hardware": "a40", "dtype": "tensor"}),
            "the definition of `a40` has no peak for `tensor` — the data types with a peak are `bfloat16`, `int8`",
        ),
        (
            json!({"model": "eight", "hardware": "unknown-peak"}),
            "the definition of `unknown-peak` has no peak for `bfloat16` — give `peak-flops` instead",
        ),
        (
            json!({"model": "eight", "hardware": "a40", "peak-flops": 1e12}),
            "`hardware` and `peak-flops` cannot be given together — keep one of the two",
        ),
        (
            json!({"model": "eight"}),
            "table `mfu` needs `hardware` or `peak-flops` — for example one of a40, unknown-peak",
        ),
        (
            json!({"model": "eight", "peak-flops": 1e12, "dtype": "int8"}),
            "`dtype` selects one of the peaks of `hardware` — remove it: `peak-flops` is one number",
        ),
        (
            json!({"model": "eight", "peak-flops": 0.0}),
            "a peak must be a positive number of FLOP/s — -",
        ),
        (
            json!({"model": "nine", "hardware": "a40"}),
            "no model is named `nine` — the model definitions are `eight`, `silent`",
        ),
        (
            json!({"model": "silent", "hardware": "a40"}),
            "the model `silent` does not state its number of parameters — give `model-parameters` \
             instead",
        ),
        (
            json!({"model": "eight", "model-parameters": 8e9, "hardware": "a40"}),
            "`model` and `model-parameters` cannot be given together — keep one of the two",
        ),
    ] {
        assert_eq!(message(more), expected);
    }
}
