//! Ways that a search found to be the fastest, kept in a file of the user's cache folder.
//!
//! The file is `gemm.json` in `$WARPWRIGHT_CACHE`, or else in `warpwright` below `$XDG_CACHE_HOME`, `~/.cache` or, on Windows,
//! `%LOCALAPPDATA%`. An entry counts for one device, shape, pair of types, orders and version of the kernel's text.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpwright::prelude::*;
use warpwright::runtime::DeviceProperties;

use super::Order;
use super::batched::Batch;
use super::multiply::{Product, Way, types};
use super::multiply_scaled::{Granularities, ScaledWay};

/// What a configuration was found for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    device: String,
    /// (m, n, k).
    shape: (u32, u32, u32),
    /// How many products.
    #[serde(default = "one")]
    batch: u32,
    /// Whether all have the same A, and the same B.
    #[serde(default)]
    shared: (bool, bool),
    input: String,
    output: String,
    /// Whether A's rows, and B's, are contiguous.
    row_major: (bool, bool),
    /// Of a product with scales, what has a scale of A and of B.
    #[serde(default)]
    scales: Option<String>,
    /// A hash of the kernel's text.
    kernel: u64,
}

/// A way that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: Key,
    /// A [`Way`], or of a product with scales a [`ScaledWay`]; null in what was kept before there was more than one kind.
    #[serde(default)]
    way: Value,
    seconds: f64,
}

/// Why configurations cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum TunedError {
    /// The environment names no folder.
    #[error("there is no folder for what a search finds: set WARPWRIGHT_CACHE to one")]
    NoFolder,
    /// The file cannot be read or written.
    #[error("{} cannot be read or written", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not what `tune` writes.
    #[error("{} is not what `warpwright tune` writes: delete it", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// What entries from before there were batches stand for.
fn one() -> u32 {
    1
}

impl Key {
    /// For products of `A` and `B` into `C` on a device of that name.
    pub(super) fn of<A: Element, B: Element, C: Element>(device: &str, batch: impl Into<Batch>) -> Self {
        let batch = batch.into();
        let Product { m, n, k, a, b } = batch.product;
        let (own_a, own_b) = batch.own();
        Self {
            device: device.to_owned(),
            shape: (m, n, k),
            batch: batch.count,
            shared: (batch.count > 1 && !own_a, batch.count > 1 && !own_b),
            input: types::<A, B>(),
            output: C::NAME.to_owned(),
            row_major: (a == Order::RowMajor, b == Order::RowMajor),
            scales: None,
            kernel: version(KERNEL),
        }
    }

    /// For products with scales.
    pub(super) fn of_scaled<A: Element, B: Element, C: Element>(
        device: &str,
        batch: impl Into<Batch>,
        granularities: Granularities,
    ) -> Self {
        let (scales, kernel) = (Some(format!("{granularities:?}")), version(SCALED_KERNEL) ^ version(KERNEL));
        Self { scales, kernel, ..Self::of::<A, B, C>(device, batch) }
    }
}

/// The text of the kernel, and what one with scales has beside it.
const KERNEL: &[&str] = &[
    include_str!("hopper.rs"),
    include_str!("products.rs"),
    include_str!("store.rs"),
    include_str!("schedule.rs"),
    include_str!("split.rs"),
    include_str!("../gemm.rs"),
    include_str!("operand.rs"),
    include_str!("warpgroups.rs"),
];
const SCALED_KERNEL: &[&str] = &[include_str!("blocks.rs"), include_str!("scales.rs")];

/// A hash of a kernel's text (FNV-1a): what was found for another text says nothing about this one.
fn version(text: &[&str]) -> u64 {
    let bytes = text.iter().flat_map(|text| text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The file in the user's cache folder.
pub(super) fn default_file() -> Result<PathBuf, TunedError> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = folder("WARPWRIGHT_CACHE");
    let shared = || {
        let home = || folder("HOME").map(|home| home.join(".cache"));
        let caches = folder("XDG_CACHE_HOME").or_else(home).or_else(|| folder("LOCALAPPDATA"));
        caches.map(|caches| caches.join("warpwright"))
    };
    own.or_else(shared).map(|folder| folder.join("gemm.json")).ok_or(TunedError::NoFolder)
}

/// The way that a file has for products on a device, if it is legal. What a GPU is fastest in says nothing about its emulator.
///
/// # Errors
/// There is a file, but it cannot be read.
pub(super) fn find<A: Element, B: Element, C: Element>(
    file: &Path,
    properties: &DeviceProperties,
    batch: Batch,
) -> Result<Option<Way>, TunedError> {
    let found = find_way(file, properties, &Key::of::<A, B, C>(&properties.product, batch))?;
    Ok(found.filter(|way: &Way| way.is_legal(batch.shape::<A, C>(), properties.capability)))
}

/// [`find`] of a product with scales.
///
/// # Errors
/// As [`find`].
pub(super) fn find_scaled<A: Element, B: Element, C: Element>(
    file: &Path,
    properties: &DeviceProperties,
    batch: Batch,
    granularities: Granularities,
) -> Result<Option<ScaledWay>, TunedError> {
    let key = Key::of_scaled::<A, B, C>(&properties.product, batch, granularities);
    let found = find_way(file, properties, &key)?;
    Ok(found.filter(|way: &ScaledWay| way.is_legal(batch.shape::<A, C>(), granularities)))
}

fn find_way<W: DeserializeOwned>(
    file: &Path,
    properties: &DeviceProperties,
    key: &Key,
) -> Result<Option<W>, TunedError> {
    if properties.is_emulated {
        return Ok(None);
    }
    let entry = entries(file)?.into_iter().find(|entry| entry.key == *key);
    Ok(entry.and_then(|entry| serde_json::from_value(entry.way).ok()))
}

/// Keeps a way in place of the one that was found before for the key; returns the file.
///
/// # Errors
/// The file cannot be read or written.
pub(super) fn keep(key: &Key, way: impl Serialize, seconds: f64) -> Result<PathBuf, TunedError> {
    let file = default_file()?;
    keep_in(&file, key, way, seconds)?;
    Ok(file)
}

pub(super) fn keep_in(file: &Path, key: &Key, way: impl Serialize, seconds: f64) -> Result<(), TunedError> {
    let unlike = |source| TunedError::Content { file: file.to_owned(), source };
    let refused = |source| TunedError::File { file: file.to_owned(), source };
    let mut all = entries(file)?;
    all.retain(|entry| entry.key != *key);
    all.push(Entry { key: key.clone(), way: serde_json::to_value(way).map_err(unlike)?, seconds });
    let text = serde_json::to_string_pretty(&all).map_err(unlike)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(refused)?;
    }
    // Whoever reads meanwhile finds the old file or the new one, never half of one.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, file)).map_err(refused)
}

/// All that a file has; nothing, if there is none.
fn entries(file: &Path) -> Result<Vec<Entry>, TunedError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TunedError::File { file: file.to_owned(), source }),
    };
    serde_json::from_str(&text).map_err(|source| TunedError::Content { file: file.to_owned(), source })
}

/// A file in a folder of its own, which goes when the folder is dropped.
#[cfg(test)]
pub(super) fn temporary_file(name: &str) -> (PathBuf, TemporaryFolder) {
    let folder = env::temp_dir().join(format!("warpwright-{name}-{}", std::process::id()));
    (folder.join("below").join("gemm.json"), TemporaryFolder(folder))
}

#[cfg(test)]
pub(super) struct TemporaryFolder(PathBuf);

#[cfg(test)]
impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // There is none if nothing was kept.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use warpwright::runtime::Device;

    use super::super::plan::{Configuration, Shape};
    use super::super::scales::Granularity;
    use super::super::warps::Warps;
    use super::*;

    #[test]
    fn what_is_kept_is_found_again_and_replaced() {
        let (file, _folder) = temporary_file("tuned");
        let product = Product::new(64, 128, 256);
        let key = Key::of::<bf16, bf16, f32>("a GPU", product);
        let shape = Shape { m: 64, n: 128, k: 256, batch: 1, input_bytes: 2, output_bytes: 4 };
        let [first, second] = [0, 1].map(|index| Way::Warpgroups(Configuration::all(shape)[index]));
        assert_eq!(entries(&file).expect("no file is no entries"), []);
        keep_in(&file, &key, first, 2.0).expect("kept");
        let others = [
            Key::of::<bf16, bf16, f32>("another GPU", product),
            Key::of::<f16, f16, f32>("a GPU", product),
            Key::of::<bf16, f16, f32>("a GPU", product),
            Key::of::<bf16, bf16, bf16>("a GPU", product),
            Key::of::<bf16, bf16, f32>("a GPU", Product::new(64, 128, 264)),
            Key::of::<bf16, bf16, f32>("a GPU", Product { b: Order::RowMajor, ..product }),
            Key { kernel: 1, ..key.clone() },
            Key::of::<bf16, bf16, f32>("a GPU", Batch::new(product, 2)),
            Key::of::<bf16, bf16, f32>("a GPU", Batch::new(product, 2).sharing_a()),
            Key::of_scaled::<bf16, bf16, f32>("a GPU", product, (Granularity::Row, Granularity::Block)),
            Key::of_scaled::<bf16, f16, f32>("a GPU", product, (Granularity::Row, Granularity::Block)),
            Key::of_scaled::<bf16, bf16, f32>("a GPU", product, (Granularity::Row, Granularity::Row)),
            Key::of_scaled::<bf16, bf16, f32>(
                "a GPU",
                Batch::new(product, 2),
                (Granularity::Row, Granularity::Row),
            ),
        ];
        for other in &others {
            assert_ne!(*other, key);
            keep_in(&file, other, first, 1.0).expect("kept");
        }
        keep_in(&file, &key, second, 1.5).expect("kept");
        let found = entries(&file).expect("readable");
        assert_eq!(found.len(), 1 + others.len());
        let of_key: Vec<_> = found.iter().filter(|entry| entry.key == key).collect();
        let kept = serde_json::to_value(second).expect("JSON");
        assert_eq!((of_key.len(), &of_key[0].way, of_key[0].seconds), (1, &kept, 1.5));
        assert_eq!(serde_json::from_value::<Way>(kept).expect("a way"), second);
        fs::write(&file, "[{}]").expect("writable");
        let error = entries(&file).expect_err("no entries");
        assert!(matches!(error, TunedError::Content { .. }) && error.to_string().ends_with("delete it"));
    }

    /// Files from before ways were kept as such, their fields beside the key's, are read, and have no way.
    #[test]
    fn entries_without_a_way_count_as_none() {
        let (file, _folder) = temporary_file("tuned-before");
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let gpu = DeviceProperties { is_emulated: false, product: "a GPU".to_owned(), ..emulator };
        let product = Product::new(64, 128, 256);
        let key = Key::of::<bf16, bf16, f32>(&gpu.product, product);
        keep_in(&file, &key, Way::Warps(Warps::default()), 1.0).expect("kept");
        let found = || find::<bf16, bf16, f32>(&file, &gpu, product.into()).expect("readable");
        assert_eq!(found(), Some(Way::Warps(Warps::default())));
        let mut all: Value = serde_json::from_str(&fs::read_to_string(&file).expect("there")).expect("JSON");
        let entry = all[0].as_object_mut().expect("an entry");
        assert!(entry.remove("way").is_some());
        entry.insert("stages".to_owned(), 4.into());
        fs::write(&file, all.to_string()).expect("writable");
        assert_eq!(found(), None);
    }

    /// What was kept before keys had counts is one product's.
    #[test]
    fn keys_without_a_count_are_of_one_product() {
        let key = Key::of::<bf16, bf16, f32>("a GPU", Product::new(64, 128, 256));
        let mut text = serde_json::to_value(&key).expect("JSON");
        let fields = text.as_object_mut().expect("a key has fields");
        assert!(fields.remove("batch").is_some() && fields.remove("shared").is_some());
        assert_eq!(serde_json::from_value::<Key>(text).expect("a key"), key);
    }
}
