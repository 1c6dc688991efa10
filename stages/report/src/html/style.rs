//! The style of the page and its colours.

use crate::figure::scoped_style;

/// A colour scheme: backgrounds, and the colours on them.
pub(super) struct Palette {
    background: &'static str,
    text: &'static str,
    muted: &'static str,
    link: &'static str,
    panel: &'static str,
    line: &'static str,
    /// The edge of a table or figure that can be scrolled further.
    beyond: &'static str,
}

const LIGHT: Palette = Palette {
    background: "#ffffff",
    text: "#1f2328",
    muted: "#57606a",
    link: "#0550ae",
    panel: "#f3f5f7",
    line: "#d0d7de",
    beyond: "#8c959f",
};

const DARK: Palette = Palette {
    background: "#0d1117",
    text: "#e6edf3",
    muted: "#9da7b3",
    link: "#79b8ff",
    panel: "#1b222c",
    line: "#3d444d",
    beyond: "#6e7681",
};

/// Returns the style sheet.
pub(super) fn sheet() -> String {
    let (light, dark) = (variables(&LIGHT), variables(&DARK));
    format!(
        "{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n{RULES}\n{}",
        scoped_style("figure.plot ")
    )
}

fn variables(palette: &Palette) -> String {
    let Palette {
        background,
        text,
        muted,
        link,
        panel,
        line,
        beyond,
    } = palette;
    format!(
        ":root{{--background:{background};--text:{text};--muted:{muted};--link:{link};--panel:{panel};--line:{line};--beyond:{beyond}}}"
    )
}

/// A bar at the foot of the window shows the trail, where it can neither move the text nor be cut off. Browsers with
/// anchor positioning show it beside the number.
const RULES: &str = "\
html{scroll-padding:1rem 0 11rem;-webkit-text-size-adjust:100%}
body{margin:0;overflow-wrap:anywhere;background:var(--background);color:var(--text);font:1rem/1.55 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
main{max-width:74rem;margin:0 auto;padding:0 1rem 8rem}
main>p,main>ul,main>ol,main>blockquote,main>pre,main>nav,main>details,main>figure{max-width:52rem}
h1,h2,h3,h4{line-height:1.25;margin:2em 0 .6em}
h1{font-size:1.8rem;margin-top:1.2em}
h2{font-size:1.35rem;border-bottom:1px solid var(--line);padding-bottom:.2em}
h3{font-size:1.1rem}
p,ul,ol,blockquote{margin:.8em 0}
a{color:var(--link)}
code,pre{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.9em}
pre{background:var(--panel);padding:.8em 1em;white-space:pre-wrap;border-radius:4px}
blockquote{border-left:3px solid var(--line);padding-left:1em;color:var(--muted)}
.scroll{overflow-x:auto;margin:1.2em 0}
.scroll,figure.plot{background:linear-gradient(to right,var(--background) 40%,transparent) 0 0/2.5rem 100% no-repeat local,\
linear-gradient(to left,var(--background) 40%,transparent) 100% 0/2.5rem 100% no-repeat local,\
linear-gradient(to right,var(--beyond),transparent) 0 0/1rem 100% no-repeat scroll,\
linear-gradient(to left,var(--beyond),transparent) 100% 0/1rem 100% no-repeat scroll}
table{overflow-wrap:normal;border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
caption{text-align:left;padding-bottom:.5em;color:var(--text)}
th,td{padding:.3em .6em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
thead th{border-bottom:2px solid var(--line);vertical-align:bottom}
tbody th{font-weight:inherit}
.right{text-align:right}
td.right{white-space:nowrap}
.center{text-align:center}
figure{margin:1.5em 0}
figure.plot{overflow-x:auto}
figure.plot svg{max-width:100%;min-width:34rem;height:auto;display:block}
figcaption{margin-top:.5em}
details{margin:.4em 0;color:var(--muted);font-size:.92rem}
summary{cursor:pointer}
nav ul{list-style:none;padding-left:0;columns:12rem;font-size:.92rem}
nav ul ul{columns:auto;padding-left:1.2em}
summary h2,summary h3{display:inline;border:0;margin:0}
summary h3{font-size:.92rem;color:var(--text)}
.appendix>summary{margin-top:3em;color:var(--text)}
.first>div>*,.first>figure{max-width:52rem}
@media (min-width:66rem){
.first{display:grid;grid-template-columns:minmax(0,1fr) minmax(34rem,1fr);column-gap:2rem;align-items:start}
.first>figure{margin-top:.8em;position:sticky;top:1rem}
}
@media (min-width:110rem){
main>figure.plot{max-width:none;display:grid;grid-template-columns:52rem minmax(0,24rem);column-gap:2rem;align-items:center}
main>figure.plot>svg{grid-row:1/3;width:100%}
main>figure.plot>details{align-self:start}
}
@media (min-width:84rem){
main:has(#contents){max-width:78rem;margin-left:max(20rem,calc(50vw - 29rem))}
#contents{position:fixed;top:1.5rem;left:max(1.5rem,calc(50vw - 47.5rem));width:15.5rem;max-height:calc(100vh - 3rem);overflow:auto}
#contents ul{columns:auto}
#contents li{margin:.25em 0}
}
.skip{position:absolute;left:-999rem}
.skip:focus{left:1rem;top:.5rem;background:var(--background);padding:.3em .6em}
.n{color:inherit;text-decoration:underline dotted var(--muted) 1px;text-underline-offset:.2em;cursor:help}
.w{text-decoration:none}
.n:hover,.n:focus{background:var(--panel)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.n:hover::after,.n:focus::after{content:attr(data-trail);position:fixed;z-index:1;left:0;right:0;bottom:0;box-sizing:border-box;\
padding:.6rem 1rem;background:var(--panel);color:var(--text);border-top:2px solid var(--link);\
font:400 .85rem/1.45 ui-monospace,'DejaVu Sans Mono',monospace;text-align:left;white-space:pre-wrap;overflow-wrap:anywhere;\
pointer-events:none;max-height:45vh;overflow:hidden}
@supports (anchor-scope:--n) and (position-area:block-end){
@media (min-width:40rem){
.n{anchor-name:--n;anchor-scope:--n}
.n:hover::after,.n:focus::after{position-anchor:--n;position-area:block-end span-inline-end;\
position-try-fallbacks:flip-block,flip-inline,flip-block flip-inline;inset:auto;margin:.3rem 0;width:max-content;max-width:32rem;\
border:1px solid var(--muted);border-radius:4px;box-shadow:0 2px 8px rgb(0 0 0/.25)}
}}
:target{background:var(--panel);outline:2px solid var(--link)}
#trails table{font-size:.82rem}
#trails .scroll{max-height:max(14rem,calc(100vh - 12rem));overflow:auto;background:none}
#trails thead{position:sticky;top:0;background:var(--background);box-shadow:0 2px var(--line)}
#trails tr{scroll-margin-top:4.5rem}
#trails td:nth-child(-n+2){min-width:5em;max-width:18em;overflow-wrap:anywhere}
#trails td:nth-child(2){min-width:11em}
#trails td:nth-child(5){white-space:nowrap}
#trails td:nth-child(8){min-width:7em}
@media (max-width:40rem){
nav ul{columns:2}
nav ul ul{display:none}
}
@media (max-width:30rem){
th,td{padding:.25em .4em}
table{font-size:.85rem}
}
@page{margin:18mm 16mm}
@media print{
:root{--background:#fff;--text:#000;--muted:#444;--link:#000;--panel:#fff;--line:#999;--beyond:transparent}
.first{display:block}
.first>figure{position:static}
body{font-size:10pt}
main{max-width:none;padding:0}
.n,.n:hover,.n:focus{text-decoration:none;background:none}
.n::after,.n:hover::after,.n:focus::after{content:none}
.skip,#trails,nav,details{display:none}
.scroll{overflow:visible}
table{font-size:8pt}
th,td{padding:.2em .35em;overflow-wrap:anywhere}
td,th{min-width:4.5em}
td.right,th.right{min-width:0}
td.right{white-space:normal}
thead th{min-width:9em}
thead th.right{min-width:6em;overflow-wrap:break-word}
thead:has(th:nth-child(7)) th{min-width:6.5em}
thead:has(th:nth-child(7)) th:nth-child(-n+3){min-width:10.5em}
thead:has(th:nth-child(7)) th.right{min-width:0}
thead:has(th:nth-child(7)) th.right,thead:has(th:nth-child(7))+tbody td.right{overflow-wrap:break-word}
thead:has(th:nth-child(9)),thead:has(th:nth-child(9))+tbody{font-size:6.5pt}
a[href^='http']::after{content:' (' attr(href) ')';overflow-wrap:anywhere}
h1,h2,h3,h4,caption{break-after:avoid}
figure,tr{break-inside:avoid}
figure.plot svg{min-width:0}
thead{display:table-header-group;break-after:avoid}
caption{break-inside:avoid}
tbody tr:first-child,tbody tr:nth-child(2),tbody tr:last-child{break-before:avoid}
p:has(+.scroll){break-after:avoid}
}";

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: &str) -> f64 {
        let channel = |i: usize| {
            let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
            if c <= 0.040_45 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// The contrast ratio according to WCAG 2.2.
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn the_measure_of_contrast_is_that_of_wcag() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        assert!((contrast("#777777", "#ffffff") - 4.478).abs() < 1e-3);
    }

    #[test]
    fn text_has_enough_contrast_in_both_schemes() {
        for p in [&LIGHT, &DARK] {
            for (on, what) in [(p.text, "text"), (p.muted, "muted"), (p.link, "link")] {
                for ground in [p.background, p.panel] {
                    assert!(contrast(on, ground) >= 4.5, "{what} {on} on {ground}");
                }
            }
        }
    }

    #[test]
    fn marks_have_enough_contrast_in_both_schemes() {
        // Graphical objects need a ratio of 3:1.
        for (palette, colours) in [(&LIGHT, crate::figure::LIGHT), (&DARK, crate::figure::DARK)] {
            for colour in colours {
                assert!(
                    contrast(colour, palette.background) >= 3.0,
                    "{colour} on {}",
                    palette.background
                );
            }
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let sheet = sheet();
        assert!(
            !sheet.contains("url(") && !sheet.contains("@import") && !sheet.contains("@font-face")
        );
    }
}
