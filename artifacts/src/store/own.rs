//! Checks that a folder is a store and that everything directly in it is its own. A folder that came from elsewhere may
//! contain links: if the store followed them, `gc` and `fsck --repair` would remove files of the user.

use std::fs;
use std::io;
use std::path::Path;

use super::walk::list;
use super::{Store, StoreError};

/// The only names that files of a new store may have.
const NAMES: [&str; 5] = ["tmp", "holds", "roots", "imports", "index.sqlite"];

impl Store {
    /// Opens the store under `root`, whose objects are those of another store. The other store does not change as long
    /// as nothing is put into this one.
    ///
    /// # Errors
    /// Same as [`Store::open`].
    pub fn open_over(objects: &Path, root: &Path) -> Result<Self, StoreError> {
        let link = root.join("objects");
        fs::create_dir_all(root)
            .and_then(|()| match link.is_symlink() {
                true => Ok(()),
                false => std::os::unix::fs::symlink(objects, &link),
            })
            .map_err(StoreError::io(&link))?;
        check_links(root, Some("objects"))?;
        Self::open_checked(root)
    }
}

/// Checks that a folder is a store, or can become one.
pub(super) fn check(root: &Path) -> Result<(), StoreError> {
    check_links(root, None)?;
    let is_store = || root.join("objects").is_dir();
    if is_store() {
        return Ok(());
    }
    // A store makes `objects` first, so these are not its files, unless another process has just created it.
    match NAMES.iter().find(|name| root.join(name).exists()) {
        Some(name) if !is_store() => Err(StoreError::NotOurs(root.join(name))),
        _ => Ok(()),
    }
}

/// Checks that nothing directly in a folder is a link, with one exception.
fn check_links(root: &Path, but: Option<&str>) -> Result<(), StoreError> {
    match fs::symlink_metadata(root) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    let root = root.canonicalize().map_err(StoreError::io(root))?;
    for path in list(&root)? {
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_symlink() && (but.is_none() || name != but) {
            return Err(StoreError::Link(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    #[test]
    fn a_store_over_the_objects_of_another_one_names_the_place_of_a_damaged_object() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (first, over) = (folder.join("first"), folder.join("over"));
        let digest = Store::open(&first).unwrap().put(b"x").unwrap();
        let path = first.join("objects");
        let hex = digest.hex();
        let object = path.join(&hex[..2]).join(&hex[2..]);
        fs::remove_file(&object).unwrap();
        fs::write(&object, b"y").unwrap();
        let over = Store::open_over(&path, &over).unwrap();
        assert_eq!(over.path(&Digest::of(b"x")), object);
        let said = over.get(&digest).unwrap_err().to_string();
        assert!(said.contains(&object.display().to_string()), "{said}");
        let (objects, _) = over.walk().unwrap();
        assert_eq!(objects[0].path, object);
    }
}
