//! R-PHYS, R-CONF: constants of hardware and versions of CUDA against what is known of them.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::shown;
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::text::Prose;

/// Memory bandwidth of data-centre GPUs in GB/s, by the vendor's data sheets: family, memory, form.
const GPUS: &[(&str, &str, &str, f64)] = &[
    ("A100", "80GB", "PCIe", 1935.0),
    ("A100", "80GB", "SXM", 2039.0),
    ("A100", "40GB", "PCIe", 1555.0),
    ("A100", "40GB", "SXM", 1555.0),
    ("H100", "80GB", "PCIe", 2000.0),
    ("H100", "80GB", "SXM", 3350.0),
    ("H200", "141GB", "SXM", 4800.0),
];

/// What rounding and another clock may change of a data sheet's value.
const GRACE: f64 = 0.12;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let gpu = gpu(scope);
    for prose in &scope.report.prose {
        if let Some((family, memory)) = gpu {
            bandwidth(prose, family, memory, found);
        }
        cuda(prose, found);
    }
}

/// The one GPU of the table that the report names, with the one size of its memory.
fn gpu(scope: &Scope<'_>) -> Option<(&'static str, &'static str)> {
    let says = |text: &str| {
        scope
            .report
            .prose
            .iter()
            .any(|prose| prose.text.contains(text))
    };
    let mut kinds: Vec<(&str, &str)> = GPUS
        .iter()
        .map(|gpu| (gpu.0, gpu.1))
        .filter(|(family, _)| says(family))
        .collect();
    kinds.dedup();
    let one = |(family, memory): &(&str, &str)| {
        let size = memory.trim_end_matches("GB");
        says(&format!("{family} {memory}"))
            || says(&format!("{family} {size} GB"))
            || says(&format!("{family}-{memory}"))
    };
    let families: Vec<&str> = kinds.iter().map(|kind| kind.0).collect();
    let same = families.windows(2).all(|pair| pair[0] == pair[1]);
    let mut named = kinds.into_iter().filter(one);
    match (named.next(), named.next()) {
        (Some(kind), None) if same => Some(kind),
        _ => None,
    }
}

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<form>PCIe|SXM)[0-9]? ?\((?:[^()0-9]{0,12})~?(?P<v>[0-9]+(?:\.[0-9]+)?) ?(?P<u>[TG]B/s)[^()]{0,12}\)")
        .expect("a regex")
});

/// `PCIe (~1.5 TB/s HBM)` of a card whose data sheet says 1,935 GB/s.
fn bandwidth(prose: &Prose, family: &str, memory: &str, found: &mut Vec<Finding>) {
    for captures in FORM.captures_iter(&prose.text) {
        let (Some(whole), Some(form), Some(value)) =
            (captures.get(0), captures.name("form"), captures.name("v"))
        else {
            continue;
        };
        let Ok(stated) = value.as_str().parse::<f64>() else {
            continue;
        };
        let scale = if captures.name("u").is_some_and(|u| u.as_str() == "TB/s") {
            1000.0
        } else {
            1.0
        };
        let Some(sheet) = GPUS
            .iter()
            .find(|gpu| gpu.0 == family && gpu.1 == memory && gpu.2 == form.as_str())
        else {
            continue;
        };
        if (stated * scale / sheet.3 - 1.0).abs() > GRACE {
            let name = format!("{family} {memory} {}", form.as_str());
            let message = format!(
                "{} GB/s, but the {name} has {} GB/s",
                shown(stated * scale),
                shown(sheet.3)
            );
            let evidence = vec![Evidence::new(
                "the vendor's data sheet",
                format!("{name}: {} GB/s", shown(sheet.3)),
            )];
            let span = (whole.start(), whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Phys, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

static RUNTIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:same|one|identical|single)\b[^.;]{0,30}\bCUDA[- ](?P<v>[0-9]{2})\b")
        .expect("a regex")
});
static WHEEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\+cu(?P<major>[0-9]{2})[0-9]\b").expect("a regex"));

/// "torch 2.8.0+cu128 and 2.11.0+cu130 are the same CUDA-13 runtime": a wheel of another major version.
fn cuda(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in RUNTIME.captures_iter(&prose.text) {
        let (Some(whole), Some(version)) = (captures.get(0), captures.name("v")) else {
            continue;
        };
        let Some((start, end)) = prose.sentence(whole.start()) else {
            continue;
        };
        let wheels: Vec<Evidence> = WHEEL
            .captures_iter(&prose.text[start..end])
            .filter(|wheel| {
                wheel
                    .name("major")
                    .is_some_and(|major| major.as_str() != version.as_str())
            })
            .filter_map(|wheel| wheel.get(0))
            .map(|wheel| {
                Evidence::new(
                    format!("line {}", prose.place(start + wheel.start()).0),
                    wheel.as_str(),
                )
            })
            .collect();
        if !wheels.is_empty() {
            let message = format!("not all of them are built for CUDA {}", version.as_str());
            let span = (whole.start(), whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Conf, Confidence::Medium),
                message,
                wheels,
            ));
        }
    }
}
