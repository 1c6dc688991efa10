//! The only module that knows both the pipeline and the stage kinds.

use pipeline::Registry;

/// Returns the stage kinds and shipped definitions of this binary.
pub(crate) fn registry() -> Registry {
    let mut shipped = engines::shipped();
    shipped.extend(load::shipped());
    shipped.extend(report::shipped());
    shipped.extend(verify::shipped());
    let mut collections = engines::collections();
    collections.extend(load::collections());
    collections.extend(places::collections());
    collections.extend(verify::collections());
    collections.extend(report::collections());
    Registry {
        kinds: vec![
            Box::new(provision::Provision),
            Box::new(serve::Serve::default()),
            Box::new(program::Run),
            Box::new(load::Load),
            Box::new(calibrate::Calibrate::default()),
            Box::new(verify::Verify),
            Box::new(analyze::Analyze),
            Box::new(report::Report),
        ],
        shipped,
        collections,
    }
}
