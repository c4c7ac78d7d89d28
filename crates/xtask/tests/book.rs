//! A page whose outputs differ is refused, and `--bless` mends it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn book(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["book", "--folder", ".", "--only", "page"]).args(arguments).current_dir(folder);
    command.output().expect("the command starts")
}

/// A book of one page.
fn folder(page: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("warpwright-book-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("src/part")).expect("it can be made");
    std::fs::write(folder.join("src/SUMMARY.md"), "[Page](part/page.md)\n").expect("it can be written");
    std::fs::write(folder.join("src/part/page.md"), page).expect("it can be written");
    folder
}

const PAGE: &str = "\
# A page

```console
$ warpwright layout 'size((4,8):(1,4))'
33
$ warpwright occupancy --threads 256 --regs 32 | head -n 1
8 CTAs...
```

<!-- warpwright layout '(2,2):(1,2)' --svg -->
![Four cells](../pictures/four.svg)

```console,fails
$ warpwright layout '(2'
```
";

#[test]
fn outputs_and_pictures_are_compared_and_mended() {
    let folder = folder(PAGE);
    let refused = book(&folder, &[]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    for part in ["page.md:4: ", "prints\n_32", "page.md:10: ", "four.svg is not", "page.md:14: "] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(book(&folder, &["--bless"]).status.success());
    let page = std::fs::read_to_string(folder.join("src/part/page.md")).expect("a page");
    assert!(page.contains("\n_32\n") && page.contains("\n8 CTAs...\n") && page.contains("error: "), "{page}");
    let right = book(&folder, &[]);
    let told = String::from_utf8_lossy(&right.stdout).into_owned();
    assert!(right.status.success() && told.contains("3 commands, 1 pictures"), "{told}");
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}
