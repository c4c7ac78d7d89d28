//! Compiles and runs the programs of `tests/c`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A folder with the library under the names that programs load.
fn staged() -> &'static Path {
    static STAGED: OnceLock<PathBuf> = OnceLock::new();
    STAGED.get_or_init(|| {
        let test = std::env::current_exe().expect("the test has a path");
        let library = test.with_file_name("libwarpwright_cuda.so");
        assert!(library.exists(), "{} is built with the tests", library.display());
        let folder = test.with_file_name(format!("cuda-programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder is made");
        for name in ["libcuda.so.1", "libcuda.so", "libcudart.so.12", "libcudart.so.13"] {
            std::os::unix::fs::symlink(&library, folder.join(name)).expect("the link is made");
        }
        folder
    })
}

/// Runs a program with some environment variables.
fn run(name: &str, variables: &[(&str, &str)]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let program = staged().join(format!("{name}-{}", variables.len()));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-pthread", "-o"])
        .args([&program, &source])
        .arg(format!("-L{}", staged().display()))
        .arg("-lcuda")
        .status()
        .expect("cc runs");
    assert!(compiled.success(), "{name}.c compiles");
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", staged()).envs(variables.iter().copied());
    command.output().expect("the program runs")
}

/// The standard output of a program that ends well.
fn output(name: &str, variables: &[(&str, &str)]) -> String {
    let ran = run(name, variables);
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {}\n{output}\n{errors}", ran.status);
    output.into_owned()
}

#[test]
fn the_driver_api_from_start_to_end() {
    let expected = "NVIDIA H200, compute capability 9, version 13000\n12000 bytes are allocated\n\
                    2 launches, a variable of 4 bytes\ndone\n";
    assert_eq!(output("driver", &[]), expected);
    assert_eq!(output("driver", &[("WARPWRIGHT_CUDA_CHECK", "1")]), expected);
}

#[test]
fn the_runtime_api_as_the_compilers_host_code_uses_it() {
    assert_eq!(output("runtime", &[]), "1 launch\ncudaErrorIllegalAddress\n");
}

#[test]
fn streams_are_asynchronous() {
    assert_eq!(output("streams", &[]), "7\ndone\n");
}

#[test]
fn the_checkers_report_races_of_two_streams() {
    let findings = staged().join("findings");
    let ran = run(
        "race",
        &[("WARPWRIGHT_CUDA_CHECK", "1"), ("WARPWRIGHT_CUDA_FINDINGS", findings.to_str().unwrap())],
    );
    assert!(ran.status.success());
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(text.contains("error[stream-order]"), "{text}");
    let lines = std::fs::read_to_string(findings).expect("the file of findings is written");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("\"code\":\"stream-order\""), "{lines}");
}
