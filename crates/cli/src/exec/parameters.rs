//! Which of a launch's arguments are parameters of the kernel.

use warpwright_arch::tensor_map::TENSOR_MAP_BYTES;
use warpwright_runtime::Parameter;

use super::description::Argument;

/// More buffers than these are not left out.
const MOST_LEFT_OUT: usize = 63;

/// The arguments that are not parameters: buffers that only tensor maps and structures refer to. A
/// kernel that reaches memory through those takes no pointer to it, so it has fewer parameters than
/// the launch has arguments. `None` for the parameters: only the driver can parse the text.
///
/// Of several choices, the one that leaves out buffers as far to the front as possible.
pub(super) fn unpassed(arguments: &[Argument], parameters: Option<&[Parameter]>) -> Vec<bool> {
    let all_passed = vec![false; arguments.len()];
    let Some(parameters) = parameters else { return all_passed };
    let excess = arguments.len().saturating_sub(parameters.len());
    if excess == 0 || excess > MOST_LEFT_OUT {
        return all_passed;
    }
    let mut referred: Vec<usize> = arguments.iter().flat_map(Argument::referred).collect();
    referred.sort_unstable();
    let may_be_left_out = |argument: &Argument| match argument {
        Argument::Buffer(buffer) => referred.binary_search(buffer).is_ok(),
        _ => false,
    };
    // For the arguments before each: a bit for each number of them that may be left out, so
    // that the others fit the first parameters.
    let mut feasible = vec![1u64];
    for (index, argument) in arguments.iter().enumerate() {
        let before = feasible[index];
        let kept = (0..=excess.min(index))
            .filter(|&left_out| {
                let parameter = parameters.get(index - left_out);
                before >> left_out & 1 != 0 && parameter.is_some_and(|parameter| fits(argument, parameter))
            })
            .fold(0u64, |bits, left_out| bits | 1 << left_out);
        let left_out = if may_be_left_out(argument) { before << 1 } else { 0 };
        feasible.push(kept | left_out);
    }
    let mut unpassed = all_passed.clone();
    let mut left = excess;
    if feasible[arguments.len()] >> left & 1 == 0 {
        return all_passed;
    }
    for (index, argument) in arguments.iter().enumerate().rev() {
        let is_kept = feasible[index] >> left & 1 != 0
            && index.checked_sub(left).and_then(|at| parameters.get(at)).is_some_and(|at| fits(argument, at));
        if !is_kept {
            unpassed[index] = true;
            left -= 1;
        }
    }
    unpassed
}

/// Whether an argument has the size of a parameter.
fn fits(argument: &Argument, parameter: &Parameter) -> bool {
    match argument {
        Argument::Buffer(_) => parameter.bytes == 8,
        Argument::Scalar { bytes, .. } | Argument::Bytes(bytes) => parameter.bytes == bytes.len(),
        Argument::TensorMap(_) => parameter.bytes == TENSOR_MAP_BYTES,
        Argument::Structure(structure) => parameter.bytes == structure.bytes,
    }
}

#[cfg(test)]
mod tests {
    use warpwright_runtime::ParameterKind;

    use super::*;
    use crate::exec::description::{Field, Structure};

    fn parameter(bytes: usize) -> Parameter {
        Parameter { name: "p".to_owned(), bytes, align: 8, kind: ParameterKind::Bits }
    }

    /// A structure of 16 bytes that points to these buffers.
    fn structure(buffers: &[usize]) -> Argument {
        let fields = buffers.iter().map(|&buffer| (0, Field::Pointer(buffer))).collect();
        Argument::Structure(Structure { bytes: 16, fields })
    }

    #[test]
    fn buffers_that_structures_refer_to_are_left_out_where_they_do_not_fit() {
        use Argument::{Buffer, Bytes};
        let scalar = || Bytes(vec![0; 4]);
        let left_out = |arguments: &[Argument], bytes: &[usize]| {
            let parameters: Vec<_> = bytes.iter().copied().map(parameter).collect();
            let unpassed = unpassed(arguments, Some(&parameters));
            (0..arguments.len()).filter(|&index| unpassed[index]).collect::<Vec<_>>()
        };
        assert_eq!(left_out(&[Buffer(0), structure(&[0])], &[16]), [0]);
        assert_eq!(left_out(&[Buffer(0), structure(&[0])], &[8, 16]), [] as [usize; 0]);
        assert_eq!(left_out(&[Buffer(0), Buffer(1), structure(&[0, 1])], &[8, 16]), [0], "the first one");
        assert_eq!(left_out(&[Buffer(0), Buffer(1), structure(&[1])], &[8, 16]), [1], "the other is passed");
        assert_eq!(left_out(&[Buffer(0), scalar(), Buffer(1), structure(&[0, 1])], &[8, 4, 16]), [2]);
        assert_eq!(
            left_out(&[Buffer(0), scalar(), structure(&[0])], &[8, 16]),
            [] as [usize; 0],
            "nothing fits"
        );
        // As many choices as there are subsets.
        let mut many: Vec<Argument> = (0..60).map(Buffer).collect();
        many.push(structure(&(0..60).collect::<Vec<_>>()));
        let parameters = [vec![8; 30], vec![16]].concat();
        assert_eq!(left_out(&many, &parameters), (0..30).collect::<Vec<_>>());
    }
}
