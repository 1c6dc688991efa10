use crate::finding::Finding;
use crate::rules::scope::Scope;
pub(crate) fn check(_scope: &Scope<'_>, _found: &mut Vec<Finding>) {}
