//! Assembled kernels kept on disk, so that a program's second run does not wait for the assembler.
//!
//! An entry holds its whole key (the driver's version, the architecture and the PTX text) and a checksum, so a file that was cut
//! short, damaged or made for something else is never used: it counts as absent and is written anew. A cache that cannot be
//! read or written is no error; it only costs time.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first bytes of an entry: what it is, and the version of its format.
const MAGIC: &[u8; 8] = b"warpcub1";

/// A directory of assembled kernels.
pub(crate) struct Cache {
    directory: Option<PathBuf>,
}

/// What an assembled kernel depends on.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    /// The driver's CUDA version, as it reports it.
    pub(crate) driver: u32,
    /// The architecture assembled for.
    pub(crate) target: &'a str,
    /// The PTX text.
    pub(crate) ptx: &'a str,
}

impl Key<'_> {
    /// The key as bytes, each part after its length, so that no two keys are spelled alike.
    fn spelled(&self) -> Vec<u8> {
        let mut bytes = self.driver.to_le_bytes().to_vec();
        for part in [self.target, self.ptx] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }

    fn file_name(&self) -> String {
        format!("{:016x}.cubin", fnv1a(&self.spelled()))
    }
}

impl Cache {
    /// The cache of the user: `$WARPWRIGHT_CACHE` (none if that is empty), else `warpwright` in `$XDG_CACHE_HOME` or
    /// `~/.cache`.
    pub(crate) fn of_user() -> Self {
        Self { directory: user_directory(|name| std::env::var_os(name).map(PathBuf::from)) }
    }

    /// The entry of that key, if there is a sound one.
    pub(crate) fn get(&self, key: Key<'_>) -> Option<Vec<u8>> {
        let entry = fs::read(self.directory.as_ref()?.join(key.file_name())).ok()?;
        let rest = entry.strip_prefix(MAGIC)?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != fnv1a(rest) {
            return None;
        }
        rest.strip_prefix(key.spelled().as_slice()).map(<[u8]>::to_vec)
    }

    /// Keeps an entry. It appears whole or not at all, whoever else writes it at the same time.
    pub(crate) fn put(&self, key: Key<'_>, cubin: &[u8]) {
        static WRITES: AtomicU32 = AtomicU32::new(0);
        let Some(directory) = &self.directory else { return };
        let mut content = key.spelled();
        content.extend_from_slice(cubin);
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let name = key.file_name();
        let temporary = directory.join(format!("{name}.{}.{number}", std::process::id()));
        let written = fs::create_dir_all(directory).and_then(|()| {
            let mut file = fs::File::create(&temporary)?;
            file.write_all(MAGIC)?;
            file.write_all(&fnv1a(&content).to_le_bytes())?;
            file.write_all(&content)?;
            drop(file);
            fs::rename(&temporary, directory.join(name))
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }
}

fn user_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(chosen) = variable("WARPWRIGHT_CACHE") {
        return (!chosen.as_os_str().is_empty()).then_some(chosen);
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    variable("XDG_CACHE_HOME")
        .filter(absolute)
        .or_else(|| variable("HOME").filter(absolute).map(|home| home.join(".cache")))
        .map(|cache| cache.join("warpwright"))
}

/// The 64-bit Fowler-Noll-Vo hash, variant 1a: it names files and finds damage; the key itself decides what matches.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> Cache {
        let directory = std::env::temp_dir().join(format!("warpwright-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        Cache { directory: Some(directory) }
    }

    fn key(ptx: &str) -> Key<'_> {
        Key { driver: 13000, target: "sm_90a", ptx }
    }

    fn only_file(cache: &Cache) -> PathBuf {
        let directory = cache.directory.as_ref().expect("these caches have one");
        let mut files =
            fs::read_dir(directory).expect("it exists").map(|entry| entry.expect("readable").path());
        let file = files.next().expect("there is a file");
        assert_eq!(files.next(), None, "no temporary file stays behind");
        file
    }

    #[test]
    fn an_entry_comes_back_for_its_key_only() {
        let cache = cache("key");
        assert_eq!(cache.get(key("a")), None);
        cache.put(key("a"), b"cubin of a");
        assert_eq!(cache.get(key("a")).as_deref(), Some(&b"cubin of a"[..]));
        assert_eq!(cache.get(key("b")), None);
        assert_eq!(cache.get(Key { driver: 13010, ..key("a") }), None);
        assert_eq!(cache.get(Key { target: "sm_80", ..key("a") }), None);
        cache.put(key("a"), b"again");
        assert_eq!(cache.get(key("a")).as_deref(), Some(&b"again"[..]));
        only_file(&cache);
    }

    #[test]
    fn damage_is_absence() {
        let cache = cache("damage");
        cache.put(key("text"), b"0123456789");
        let file = only_file(&cache);
        let sound = fs::read(&file).expect("readable");
        for position in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[position] ^= 1;
            fs::write(&file, damaged).expect("writable");
            assert_eq!(cache.get(key("text")), None, "a flipped bit in byte {position}");
            fs::write(&file, &sound[..position]).expect("writable");
            assert_eq!(cache.get(key("text")), None, "cut to {position} bytes");
        }
        cache.put(key("text"), b"0123456789");
        assert!(cache.get(key("text")).is_some(), "it is replaced");
    }

    #[test]
    fn an_entry_of_another_key_with_the_same_file_name_is_not_used() {
        let cache = cache("collision");
        cache.put(key("mine"), b"mine");
        let other = cache.directory.as_ref().expect("it has one").join(key("other").file_name());
        fs::rename(only_file(&cache), other).expect("same directory");
        assert_eq!(cache.get(key("other")), None);
    }

    #[test]
    fn the_directory_follows_the_environment() {
        let directory = |set: &[(&str, &str)]| {
            let set: Vec<_> =
                set.iter().map(|(name, value)| ((*name).to_owned(), PathBuf::from(value))).collect();
            user_directory(move |name| {
                set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(directory(&[("WARPWRIGHT_CACHE", "/a"), ("HOME", "/h")]), path("/a"));
        assert_eq!(directory(&[("WARPWRIGHT_CACHE", ""), ("HOME", "/h")]), None);
        assert_eq!(directory(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), path("/x/warpwright"));
        assert_eq!(
            directory(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]),
            path("/h/.cache/warpwright")
        );
        assert_eq!(directory(&[]), None);
    }

    #[test]
    fn no_directory_is_no_error() {
        let none = Cache { directory: None };
        none.put(key("a"), b"x");
        assert_eq!(none.get(key("a")), None);
    }
}
