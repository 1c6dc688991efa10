//! Pins: packages with exact versions, and lock files that fix every package by its digest.

use std::collections::BTreeMap;

/// How to make a lock.
pub(super) const MAKE_A_LOCK: &str = "every line needs `name==version --hash=sha256:…`; make such a file with `uv pip compile \
     --generate-hashes`, `uv export`, or `pip-compile --generate-hashes`, or take the output `lock` of \
     a provision cell that used `packages`";

/// The problem with a lock, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongLine {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Returns a package's name as registries compare it: in lower case, with single hyphens.
pub(crate) fn normalized(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        let separator = matches!(c, '-' | '_' | '.');
        if !separator {
            out.extend(c.to_lowercase());
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    out
}

/// Returns the name (without extras) and the version of a pin.
pub(super) fn parts(pin: &str) -> Option<(&str, &str)> {
    let (name, version) = pin.split_once("==")?;
    let name = name.split('[').next().unwrap_or(name);
    Some((name.trim(), version.trim()))
}

/// Returns pins in one form and order, without duplicates.
pub(super) fn sorted(pins: &[String]) -> Vec<String> {
    let mut all: Vec<String> = pins
        .iter()
        .map(|pin| match pin.split_once("==") {
            Some((name, version)) => format!("{}=={}", name.trim().to_lowercase(), version.trim()),
            None => pin.clone(),
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Checks that a pin names one version of one package.
///
/// # Errors
/// The problem and the remedy.
pub(super) fn check(pin: &str) -> Result<(), (String, String)> {
    let bare = pin
        .split(['=', '<', '>', '~', '!', ' ', '@', ';'])
        .next()
        .unwrap_or(pin);
    let remedy = || {
        format!(
            "write the exact version, for example `{}==1.2.3`",
            bare.trim()
        )
    };
    let Some((name, version)) = parts(pin) else {
        return Err((format!("`{pin}` does not give an exact version"), remedy()));
    };
    let plain_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let plain_version = version.starts_with(|c: char| c.is_ascii_digit())
        && version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '!' | '_'));
    if version.contains('*') || !plain_version {
        return Err((
            format!("`{version}` is not one version of `{name}`"),
            remedy(),
        ));
    }
    if !plain_name {
        return Err((
            format!("`{name}` cannot be the name of a package"),
            remedy(),
        ));
    }
    Ok(())
}

/// Returns the packages of a lock by normalized name, with their versions. Lines with options of the
/// client (`--extra-index-url …`) and comments are allowed.
///
/// # Errors
/// The first line without an exact version or without a SHA-256.
pub(super) fn locked(text: &str) -> Result<BTreeMap<String, String>, WrongLine> {
    let mut pins = BTreeMap::new();
    for (line, requirement) in requirements(text) {
        let wrong = |message: String| WrongLine { line, message };
        let mut words = requirement.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first.starts_with('-') {
            continue;
        }
        if let Err((message, _)) = check(first.trim_end_matches(';')) {
            return Err(wrong(message));
        }
        let hashed = requirement.split("--hash=sha256:").skip(1).any(|rest| {
            rest.len() >= 64 && rest.as_bytes()[..64].iter().all(u8::is_ascii_hexdigit)
        });
        if !hashed {
            return Err(wrong(format!("`{first}` has no SHA-256")));
        }
        let (name, version) = parts(first.trim_end_matches(';')).unwrap_or((first, ""));
        pins.insert(normalized(name), version.to_owned());
    }
    if pins.is_empty() {
        let message = "the lock names no package".to_owned();
        return Err(WrongLine { line: 1, message });
    }
    Ok(pins)
}

/// Returns the logical lines with their numbers: comments removed, continued lines joined.
fn requirements(text: &str) -> Vec<(usize, String)> {
    let mut unpinned: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = match line.find('#') {
            Some(0) => "",
            Some(at) if line.as_bytes()[at - 1].is_ascii_whitespace() => &line[..at],
            _ => line,
        };
        let (line, continued) = match line.trim_end().strip_suffix('\\') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        match unpinned.last_mut() {
            Some((_, last)) if open => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ if !line.trim().is_empty() => unpinned.push((number, line.trim().to_owned())),
            _ => {}
        }
        open = continued;
    }
    unpinned
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    #[test]
    fn a_pin_is_one_version_of_one_package() {
        for pin in [
            "vllm==0.20.2",
            "torch==2.11.0+cu130",
            "transformers[serving]==5.19.0",
            "a.b_c==1!2.0rc1",
        ] {
            assert_eq!(check(pin), Ok(()), "{pin}");
        }
        for pin in [
            "vllm",
            "vllm>=0.20",
            "vllm==0.20.*",
            "vllm @ file:///x.whl",
            "==1",
            "vllm== ",
            "vllm==0.20; python_version<'4'",
            "--pre",
        ] {
            assert!(check(pin).is_err(), "{pin}");
        }
        assert_eq!(
            check("vllm>=0.20").unwrap_err().1,
            "write the exact version, for example `vllm==1.2.3`"
        );
    }

    #[test]
    fn names_are_compared_as_registries_do() {
        assert_eq!(normalized("Flash__Attn.x"), "flash-attn-x");
        assert_eq!(
            sorted(&["b==1".into(), "A == 2".into(), "b==1".into()]),
            ["a==2", "b==1"]
        );
    }

    #[test]
    fn a_lock_has_a_version_and_a_sum_for_every_package() {
        let text = format!(
            "# made by hand\n--extra-index-url x\n\nTorch==2.11.0+cu130 \\\n    --hash=sha256:{SUM} \\\n    --hash=sha256:{SUM}\n\
             numpy==2.0.0 --hash=sha256:{SUM}  # via torch\nonly-here==1 ; sys_platform == 'linux' --hash=sha256:{SUM}\n"
        );
        let pins = locked(&text).unwrap();
        let expected = [
            ("numpy", "2.0.0"),
            ("only-here", "1"),
            ("torch", "2.11.0+cu130"),
        ];
        assert_eq!(
            pins,
            expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into()
        );
    }

    #[test]
    fn a_line_without_version_or_sum_is_named() {
        for (text, line, message) in [
            (
                format!("a==1 --hash=sha256:{SUM}\n\nb==2\n"),
                3,
                "`b==2` has no SHA-256",
            ),
            (
                format!("a>=1 --hash=sha256:{SUM}\n"),
                1,
                "`a>=1` does not give an exact version",
            ),
            (
                "a==1 --hash=sha256:12\n".to_owned(),
                1,
                "`a==1` has no SHA-256",
            ),
            ("# nothing\n".to_owned(), 1, "the lock names no package"),
        ] {
            let wrong = locked(&text).unwrap_err();
            assert_eq!((wrong.line, wrong.message.as_str()), (line, message));
        }
    }
}
