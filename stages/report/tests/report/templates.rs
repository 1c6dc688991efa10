//! Templates that would exhaust memory, time or the stack. Each is refused with a reason, within a limit on the address
//! space of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::stage::StageKind;
use report::{Data, Parameters, Report};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::fixture::{Lab, Templates};

/// Limits the address space: a larger allocation fails and ends this process.
fn bounded() {
    let limit = Rlimit {
        current: Some(6 << 30),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).expect("a lower limit can always be set");
}

/// Each template must be refused for a reason that contains the given words.
fn refused(cases: &[(&str, String)]) {
    bounded();
    for (words, template) in cases {
        let reason = Lab::new().render_text(template).expect_err(template);
        assert!(reason.contains(words), "{template:.200}\n{reason:.400}");
    }
}

fn chain(start: &str, step: &str, times: usize, end: &str) -> String {
    format!("{start}{}{end}", step.repeat(times))
}

#[test]
fn texts_that_double_are_stopped() {
    let s = "{% set a = 'words and ' %}";
    refused(&[
        ("16 MiB", chain(s, "{% set a = a ~ a %}", 60, "")),
        ("16 MiB", chain(s, "{% set a = a + a %}", 60, "")),
        ("16 MiB", chain(s, "{% set(a)=a~a %}", 60, "")),
        ("16 MiB", chain(s, "{% set a, b = a ~ a, 1 %}", 60, "")),
        ("16 MiB", chain(s, "{% with a = a ~ a %}", 60, &"{% endwith %}".repeat(60))),
        ("16 MiB", chain(s, "{% set a = [a, a] %}", 60, "{{ a|join('') }}")),
        ("16 MiB", chain(s, "{% set a = {'x': a, 'y': a} %}", 60, "{{ a|string }}")),
        ("16 MiB", chain(s, "{% set a = a|replace('w', a) %}", 60, "")),
        ("16 MiB", chain(s, "{% set a = [a, a]|join(a) %}", 60, "")),
        ("16 MiB", chain(s, "{% set a = '%s%s'|format(a, a) %}", 60, "")),
        ("256 MiB", chain("{% set a %}words{% endset %}", "{% set a %}{{ a }}{{ a }}{% endset %}", 60, "")),
        ("16 MiB", "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}".to_owned()),
        ("16 MiB", "{% macro d(a, n) %}{% if n %}{{ d(a ~ a, n - 1) }}{% endif %}{% endmacro %}{{ d('words', 60) }}".to_owned()),
        ("16 MiB", "{% macro d() %}{{ caller('x' * 90000000) }}{% endmacro %}{% call(a) d() %}{{ a }}{% endcall %}".to_owned()),
    ]);
}

#[test]
fn a_filter_is_asked_before_it_makes_too_much() {
    let long = "{% set a = 'words ' * 1000000 %}";
    refused(&[
        ("16 MiB", format!("{long}{{{{ a|replace('', a) }}}}")),
        ("16 MiB", format!("{long}{{{{ a|replace('w', a) }}}}")),
        ("16 MiB", format!("{long}{{{{ range(100000)|join(a) }}}}")),
        (
            "16 MiB",
            format!("{long}{{{{ range(100000)|map('replace', '1', a)|list }}}}"),
        ),
        (
            "16 MiB",
            "{{ ('a\n' * 1000000)|indent(100000) }}".to_owned(),
        ),
        (
            "16 MiB",
            "{{ ('a\n' * 1000000)|indent(width=100000) }}".to_owned(),
        ),
        ("16 MiB", "{{ '%999999999d'|format(1) }}".to_owned()),
        ("16 MiB", "{{ '%.999999999f'|format(1) }}".to_owned()),
        ("16 MiB", "{{ '%*d'|format(999999999, 1) }}".to_owned()),
        (
            "16 MiB",
            "{{ [1]|batch(9999999999, 'x')|length }}".to_owned(),
        ),
        ("16 MiB", "{{ [1]|slice(9999999999)|length }}".to_owned()),
        ("16 MiB", "{{ ([1] * 90000000)|list|length }}".to_owned()),
        ("16 MiB", "{{ ([1] * 90000000)|sort|length }}".to_owned()),
        (
            "16 MiB",
            "{% filter replace('a', 'b' * 90000000) %}aaa{% endfilter %}".to_owned(),
        ),
        (
            "at most 4 times",
            "{{ 'a' * 9 * 9 * 9 * 9 * 9 }}".to_owned(),
        ),
        (
            "at most 64 texts",
            format!("{{{{ 'a'{} }}}}", " ~ 'a'".repeat(65)),
        ),
    ]);
}

#[test]
fn loops_and_what_they_print_are_stopped() {
    let nested = |body: &str| {
        let open = "{% for a in range(100000) %}".repeat(3);
        format!("{open}{body}{}", "{% endfor %}".repeat(3))
    };
    let words = "several words ".repeat(1000);
    refused(&[
        ("prints more than 256 MiB", nested(&words)),
        ("fuel", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}".to_owned()),
        ("256 MiB", format!("{{% macro m() %}}{words}{{% endmacro %}}{}", nested("{{ m() }}"))),
        ("256 MiB", format!("{{% macro m() %}}{}{{% endmacro %}}{{% call m() %}}{words}{{% endcall %}}", nested("{{ caller() }}"))),
        ("goes through more than 2 GiB", format!("{{% set w = 'words ' * 1000000 %}}{}", nested("{% if w|length == 1 %}{% endif %}"))),
        ("goes through more than 2 GiB", "{% set ns = namespace(a=[]) %}{% for a in range(100000) %}{% for b in range(10) %}{% set ns.a = ns.a + [1] %}{% endfor %}{% endfor %}".to_owned()),
        ("64 levels", "{% set ns = namespace(a=[]) %}{% for a in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}".to_owned()),
        ("too many elements", "{% for a in range(1000000000000) %}{% endfor %}".to_owned()),
    ]);
}

#[test]
fn templates_that_call_themselves_are_stopped() {
    refused(&[
        (
            "recursion",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        ),
        (
            "recursion",
            "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"
                .to_owned(),
        ),
        ("recursion", "{% include 't.md' %}".to_owned()),
        (
            "recursion",
            "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        ),
        ("t.md", "{% extends 't.md' %}".to_owned()),
        (
            "t.md",
            "{% block a %}{{ self.a() }}{% endblock %}".to_owned(),
        ),
        (
            "t.md",
            "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}".to_owned(),
        ),
        ("t.md", chain("{{ ", "(", 100_000, "")),
        ("t.md", chain("{{ ", "[", 100_000, "")),
        (
            "more than 500 `elif`",
            chain("{% if 1 %}", "{% elif 1 %}", 100_000, "{% endif %}"),
        ),
        (
            "at most 1000 operators",
            chain("{{ 1", " and 1", 100_000, " }}"),
        ),
        ("t.md", chain("{{ ", "not ", 100_000, "1 }}")),
        ("t.md", chain("{{ ", "-", 100_000, "1 }}")),
        ("t.md", chain("", "{% if 1 %}", 100_000, "")),
        ("t.md", chain("{{ 1", "|abs", 100_000, " }}")),
        ("t.md", chain("{{ a", ".a", 100_000, " }}")),
        ("4 MiB", "words ".repeat(1_000_000)),
    ]);
}

#[test]
fn a_template_is_stopped_between_two_tags() {
    let template = "{% for a in range(100) %}{% endfor %}";
    let lab = Lab::new();
    let parameters = Report
        .canonical(&json!({"template": "t.md"}), &Templates::one(template))
        .map_err(|problems| problems[0].message.clone())
        .expect("parameters");
    let parameters: Parameters = serde_json::from_value(parameters).expect("parameters");
    let stop = Arc::new(AtomicBool::new(false));
    let data = || Arc::new(Data::new(&lab.inputs, Some(&lab.study)).stopped_by(Arc::clone(&stop)));
    assert!(report::render(&parameters, &data(), &lab.store).is_ok());
    stop.store(true, Ordering::Relaxed);
    let error = report::render(&parameters, &data(), &lab.store).expect_err("stopped");
    assert!(error.to_string().contains("stopped by the user"), "{error}");
}

#[test]
fn looking_at_values_changes_nothing_of_what_is_printed() {
    let template = "{% set one, two = 'a', 'b' %}\n{%- set ns = namespace(n='x') -%}\n  {% for (k, v) in [('k', 'v')] %}\n\
                    {{ k }}{{ v }}\n  {%- else %}none{% endfor %}\n\
                    {% macro m(a, b='d', c='e') %}[{{ a }}{{ b }}]{% endmacro %}\n\
                    {% with x = 'y' %} {{ x }}{% endwith %} {{ m('c') }}\n\
                    {% call(z) m2('p') %}<{{ z }}>{% endcall %}\n\
                    {{ ['q', 'r']|join(', ') }} {{ 'a-b'|replace('-', '+') }} {{ ['s']|map('upper')|first }} {{ [{'x': 'w'}]|map(attribute='x')|join }}\n\
                    {% if ['t', 'u']|length == 2 %}v{% endif %}\n";
    let template = format!("{{% macro m2(q) %}}{{{{ caller(q) }}}}{{% endmacro %}}{template}");
    let text = Lab::new().render_text(&template);
    insta::assert_snapshot!(text.unwrap_or_else(|reason| reason));
}

#[test]
fn places_in_errors_are_those_of_the_template_as_it_was_written() {
    let template = "{% set a = 'x' %}{% for b in ['y'] %}{{ b }}{{ a.c }}{% endfor %}\n";
    let reason = Lab::new().render_text(template).expect_err("undefined");
    assert!(reason.starts_with("t.md:1:48:"), "{reason}");
    assert!(!reason.contains("benchtrail_"), "{reason}");
}
