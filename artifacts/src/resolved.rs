//! Paths of files that may be gone.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Returns an absolute path without `.`, `..` and links, as far as its folders exist. So a file that was reached through a
/// link has the same path after its folder was removed. A link in the place of the file itself stays.
///
/// # Errors
/// If the working directory is needed and cannot be read.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let parts: Vec<Component<'_>> = absolute.components().collect();
    let mut resolved = PathBuf::new();
    for (i, part) in parts.iter().enumerate() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            other => {
                resolved.push(other);
                if i + 1 < parts.len()
                    && let Ok(real) = resolved.canonicalize()
                {
                    resolved = real;
                }
            }
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_the_same_with_and_without_its_folder() {
        let outer = tempfile::tempdir().unwrap();
        let outer = outer.path().canonicalize().unwrap();
        fs::create_dir_all(outer.join("r/a")).unwrap();
        fs::create_dir_all(outer.join("r/b")).unwrap();
        symlink(outer.join("r"), outer.join("link")).unwrap();
        let plain = outer.join("r/b/s.lock");
        let others = [
            plain.clone(),
            outer.join("r/a/../b/s.lock"),
            outer.join("r/./b//s.lock"),
            outer.join("link/b/s.lock"),
            outer.join("link/a/../../r/b/s.lock"),
        ];
        for _ in 0..2 {
            for other in &others {
                assert_eq!(resolved(other).unwrap(), plain, "{}", other.display());
            }
            let _ = fs::remove_dir(outer.join("r/b"));
        }
    }

    #[test]
    fn a_link_in_the_place_of_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::write(folder.join("real.lock"), "").unwrap();
        symlink(folder.join("real.lock"), folder.join("s.lock")).unwrap();
        assert_eq!(
            resolved(&folder.join("s.lock")).unwrap(),
            folder.join("s.lock")
        );
    }
}
