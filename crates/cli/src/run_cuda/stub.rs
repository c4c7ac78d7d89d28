//! A shared library without functions, which loads another one.
//!
//! Programs want functions of `libcudart.so.13` in the version of that name. The loader looks for the version in the
//! library of the name, and for the functions in all libraries: the stub has the version, and needs the library with the
//! functions, which has them without one. ELF's layout is the System V ABI's, "Object Files" and "Dynamic Linking"; the
//! versions are the Linux Standard Base's, "Symbol Versioning".

/// Where the parts are: the header, three program headers, a symbol, the hash table, the versions, the dynamic section.
const SYMBOLS: u64 = 64 + 3 * 56;
const HASH: u64 = SYMBOLS + 24;
const SYMBOL_VERSIONS: u64 = HASH + 16;
const VERSIONS: u64 = SYMBOL_VERSIONS + 8;
const DYNAMIC: u64 = VERSIONS + 2 * 28;
const ENTRIES: u64 = 11;
const STRINGS: u64 = DYNAMIC + 16 * ENTRIES;

/// The file of a library of this name and version, which loads `needed`.
pub(super) fn stub(name: &str, needed: &str) -> Vec<u8> {
    let strings = [b"\0", name.as_bytes(), b"\0", needed.as_bytes(), b"\0"].concat();
    let (name_at, needed_at) = (1, 2 + name.len() as u64);
    let end = STRINGS + strings.len() as u64;
    let mut file = Vec::new();
    // 64 bits, little-endian, a shared library for x86-64.
    file.extend(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    halves(&mut file, &[3, 62]);
    words(&mut file, &[1]);
    longs(&mut file, &[0, 64, 0]);
    words(&mut file, &[0]);
    halves(&mut file, &[64, 56, 3, 64, 0, 0]);
    // All of it is loaded, readable and writable; the stack is not executable.
    for (kind, start, bytes, align) in
        [(1, 0, end, 4096), (2, DYNAMIC, 16 * ENTRIES, 8), (0x6474_e551, 0, 0, 16)]
    {
        words(&mut file, &[kind, 6]);
        longs(&mut file, &[start, start, start, bytes, bytes, align]);
    }
    longs(&mut file, &[0; 3]);
    words(&mut file, &[1, 1, 0, 0]);
    longs(&mut file, &[0]);
    // The library's own version, and the one that programs want.
    for (flags, index, next) in [(1, 1, 28), (0, 2, 0)] {
        halves(&mut file, &[1, flags, index, 1]);
        words(&mut file, &[hash(name), 20, next, name_at as u32, 0]);
    }
    let dynamic = [
        (1, needed_at),                 // NEEDED
        (14, name_at),                  // SONAME
        (4, HASH),                      // HASH
        (5, STRINGS),                   // STRTAB
        (6, SYMBOLS),                   // SYMTAB
        (10, strings.len() as u64),     // STRSZ
        (11, 24),                       // SYMENT
        (0x6fff_fff0, SYMBOL_VERSIONS), // VERSYM
        (0x6fff_fffc, VERSIONS),        // VERDEF
        (0x6fff_fffd, 2),               // VERDEFNUM
        (0, 0),
    ];
    dynamic.iter().for_each(|(tag, value)| longs(&mut file, &[*tag, *value]));
    file.extend(strings);
    file
}

fn halves(file: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| file.extend(value.to_le_bytes()));
}

fn words(file: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| file.extend(value.to_le_bytes()));
}

fn longs(file: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| file.extend(value.to_le_bytes()));
}

/// The hash of a name in ELF.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let sum = (hash << 4).wrapping_add(u32::from(byte));
        let high = sum & 0xf000_0000;
        (sum ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_where_the_headers_say() {
        let file = stub("libcudart.so.13", "libcuda.so.1");
        let text = |at: usize| file[at..].iter().take_while(|byte| **byte != 0).copied().collect::<Vec<_>>();
        assert_eq!(text(STRINGS as usize + 1), b"libcudart.so.13");
        let first = DYNAMIC as usize;
        let needed = u64::from_le_bytes(file[first + 8..first + 16].try_into().unwrap());
        assert_eq!(text((STRINGS + needed) as usize), b"libcuda.so.1");
        // The ABI gives this hash of `printf`.
        assert_eq!(hash("printf"), 0x077905a6);
    }
}
