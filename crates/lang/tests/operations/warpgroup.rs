//! `wgmma`: every form of the instruction table, from every shape, type and source of A that the
//! language has atoms for.

use std::collections::BTreeSet;

use half::{bf16, f16};
use warpwright_arch::DataType;
use warpwright_arch::instructions;
use warpwright_ir::{self as ir, Statement};
use warpwright_lang::element::{Element, b1x32, e4m3, e5m2, tf32};
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::space::SharedSpace;
use warpwright_lang::tensor::{
    Accumulate, Fragment, LeftOperand, MatrixOperand, Sparse, Tensor, TiledMma, TmaTile, multiply,
    wait_multiplications,
};
use warpwright_lang::{launch, special::thread_idx};
use warpwright_layout::atom::{Family, Major, MmaAtom, Operand};

use super::staged;

/// Two instructions deep.
const STEPS: u32 = 2;

/// One product: the atom, and what it does besides.
#[derive(Clone)]
struct Product {
    atom: MmaAtom,
    saturating: bool,
    negating: bool,
    majors: (Major, Major),
}

impl Product {
    fn of(atom: MmaAtom) -> Self {
        Self { atom, saturating: false, negating: false, majors: (Major::K, Major::K) }
    }

    fn stage(&self) -> ir::Kernel {
        staged("product", || {
            launch::threads(128);
            match self.atom.a {
                DataType::F16 => self.by_right::<f16>(),
                DataType::Bf16 => self.by_right::<bf16>(),
                DataType::Tf32 => self.by_right::<tf32>(),
                DataType::E4m3 => self.by_right::<e4m3>(),
                DataType::E5m2 => self.by_right::<e5m2>(),
                DataType::S8 => self.by_right::<i8>(),
                DataType::U8 => self.by_right::<u8>(),
                DataType::B1 => self.by_right::<b1x32>(),
                other => panic!("wgmma does not multiply {other}"),
            }
        })
    }

    fn by_right<A: Element>(&self) {
        match self.atom.b {
            DataType::E4m3 => self.by_sums::<A, e4m3>(),
            DataType::E5m2 => self.by_sums::<A, e5m2>(),
            DataType::S8 => self.by_sums::<A, i8>(),
            DataType::U8 => self.by_sums::<A, u8>(),
            _ => self.by_sums::<A, A>(),
        }
    }

    fn by_sums<A: Element, B: Element>(&self) {
        match self.atom.c {
            DataType::F16 => self.record::<A, B, f16>(),
            DataType::F32 => self.record::<A, B, f32>(),
            _ => self.record::<A, B, i32>(),
        }
    }

    fn record<A: Element, B: Element, C: Element>(&self) {
        let mut mma = TiledMma::warpgroups(&self.atom.name(), 1);
        if self.saturating {
            mma = mma.saturating();
        }
        if self.negating {
            mma = mma.negating_a().negating_b();
        }
        let (a_tile, b_tile) = (extents(self.atom.tile(Operand::A)), extents(self.atom.tile(Operand::B)));
        let a_tile = (a_tile.0, STEPS * a_tile.1);
        let part = mma.thread(thread_idx().x);
        let mut sums: Fragment<C> = part.c_fragment(extents((self.atom.shape.0, self.atom.shape.1)));
        sums.clear();
        let b = mma.b_operand(&tile::<B>((b_tile.0, STEPS * b_tile.1), self.atom.b, self.majors.1));
        let b = b.slice((warpwright_layout::All, warpwright_layout::All, 0));
        if self.atom.a_from_shared {
            let a = mma.a_operand(&tile::<A>(a_tile, self.atom.a, self.majors.0), 0);
            let a: MatrixOperand = a.slice((warpwright_layout::All, warpwright_layout::All, 0));
            self.multiply(&mma, &mut sums, &a, &b, a_tile);
        } else {
            let mut a = part.a_fragment::<A>(a_tile);
            a.clear();
            self.multiply(&mma, &mut sums, &a, &b, a_tile);
        }
        wait_multiplications(0);
    }

    fn multiply<C: Element>(
        &self,
        mma: &TiledMma,
        sums: &mut Fragment<C>,
        a: &impl LeftOperand,
        b: &MatrixOperand,
        stored: (u32, u32),
    ) {
        match self.atom.metadata() {
            Some(_) => {
                let mut metadata = mma.thread(thread_idx().x).metadata_fragment(stored);
                metadata.clear();
                multiply(mma, sums, &Sparse { stored: a, metadata: &metadata }, b, Accumulate::Yes);
            }
            None => multiply(mma, sums, a, b, Accumulate::Yes),
        }
    }
}

/// The extents of an atom's tile.
fn extents((rows, columns): (i64, i64)) -> (u32, u32) {
    (rows as u32, columns as u32)
}

/// A tile of an operand's elements; of bits, of words of them.
fn tile<T: Element>(extents: (u32, u32), element: DataType, major: Major) -> Tensor<T, SharedSpace> {
    let packed = 8 * T::BYTES / element.bits();
    let tile = TmaTile::new::<T>((extents.0, extents.1 / packed), major).expect("a tile of whole blocks");
    let layout = tile.layout(1).expect("a tile has a layout");
    Tensor::new(dynamic_shared_aligned::<T>(extents.0 * extents.1 / packed, 1024), layout)
}

/// Every product: of each atom, and of the integer ones saturated, too.
fn products() -> Vec<Product> {
    let atoms = MmaAtom::all().into_iter().filter(|atom| atom.family.is_warpgroup());
    let mut products: Vec<Product> = atoms.map(Product::of).collect();
    let bytes = |product: &&Product| matches!(product.atom.a, DataType::S8 | DataType::U8);
    let saturating: Vec<Product> = products
        .iter()
        .filter(bytes)
        .map(|product| Product { saturating: true, ..product.clone() })
        .collect();
    products.extend(saturating);
    products
}

/// Its `wgmma.mma_async`, each as its name and its operands' number: those of registers have fewer
/// than those of descriptors where the types are the same.
fn multiplies(kernel: &ir::Kernel) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for statement in &kernel.body {
        let Statement::Instruction(instruction) = statement else { continue };
        if instruction.opcode.starts_with("wgmma.mma_async") {
            found.push((instruction.opcode.to_string(), instruction.operands.len()));
        }
    }
    found
}

#[test]
fn every_wgmma_of_the_table_is_recorded_and_no_other() {
    let mut recorded = BTreeSet::new();
    for product in products() {
        let kernel = product.stage();
        let multiplies = multiplies(&kernel);
        assert_eq!(multiplies.len(), STEPS as usize, "{}", product.atom.name());
        let sources = u8::from(product.atom.a_from_shared);
        recorded.extend(multiplies.into_iter().map(|(name, operands)| (name, sources, operands)));
    }
    let table: BTreeSet<(String, u8, usize)> = instructions::forms()
        .filter(|form| form.name.starts_with("wgmma.mma_async"))
        .flat_map(|form| {
            let operands = form.operands.replace("+=", ",").split(',').count();
            let sources = u8::from(!form.operands.contains("{b32*4}"));
            let names = form.instances(usize::MAX).into_iter().map(|(name, _)| name);
            // ptxas takes `wgmma` without `.aligned` too.
            names.filter(|name| name.contains(".aligned.")).map(move |name| (name, sources, operands))
        })
        .collect();
    let lacking: Vec<_> = table.difference(&recorded).take(10).collect();
    let unknown: Vec<_> = recorded.difference(&table).take(10).collect();
    assert!(lacking.is_empty() && unknown.is_empty(), "lacking {lacking:?}, unknown {unknown:?}");
    assert!(table.len() > 2000, "{} forms: the table has wgmma of every width", table.len());
}

/// A product of each form: the narrowest and the widest of its shapes, and one between.
fn samples() -> Vec<Product> {
    let mut samples: Vec<Product> =
        products().into_iter().filter(|product| [8, 96, 256].contains(&product.atom.shape.1)).collect();
    for product in samples.clone() {
        if product.atom.shape.1 != 96 || product.atom.d == DataType::S32 {
            continue;
        }
        samples.push(Product { negating: true, ..product.clone() });
        if product.atom.a.bits() == 16 && product.atom.family == Family::Warpgroup {
            let majors =
                if product.atom.a_from_shared { (Major::Mn, Major::Mn) } else { (Major::K, Major::Mn) };
            samples.push(Product { majors, ..product });
        }
    }
    samples
}

fn module() -> ir::Module {
    let capability = super::Capability::for_target("sm_90a").expect("a target of the table");
    let kernels = samples().into_iter().enumerate().map(|(number, product)| {
        let mut kernel = product.stage();
        kernel.name = format!("product_{number}");
        kernel
    });
    ir::Module::new(capability, kernels.collect())
}

#[test]
fn the_verifier_accepts_every_form() {
    let module = module();
    for kernel in &module.kernels {
        ir::verify(kernel, module.capability)
            .unwrap_or_else(|errors| panic!("{:?}: {errors:?}", multiplies(kernel)));
    }
}

#[test]
fn the_assembler_accepts_every_form() {
    super::assemble(&module());
}

/// The scales and orders that a product says are those of its instructions.
#[test]
fn immediates_tell_signs_and_orders() {
    let named = |name: &str| Product::of(MmaAtom::named(name).expect("an atom"));
    let immediates = |product: &Product| -> Vec<i128> {
        let kernel = product.stage();
        let multiply = kernel.body.iter().find_map(|statement| match statement {
            Statement::Instruction(found) if found.opcode.starts_with("wgmma.mma_async") => Some(found),
            _ => None,
        });
        let operands = &multiply.expect("it multiplies").operands;
        let integer = |operand: &ir::Operand| match operand {
            ir::Operand::Integer(value) => Some(*value),
            _ => None,
        };
        operands.iter().filter_map(integer).collect()
    };
    let halves = named("SM90_64x64x16_F32F16F16_SS");
    assert_eq!(immediates(&halves), [1, 1, 0, 0]);
    assert_eq!(immediates(&Product { negating: true, ..halves.clone() }), [-1, -1, 0, 0]);
    assert_eq!(immediates(&Product { majors: (Major::Mn, Major::K), ..halves.clone() }), [1, 1, 1, 0]);
    assert_eq!(immediates(&Product { majors: (Major::K, Major::Mn), ..halves }), [1, 1, 0, 1]);
    let majors = (Major::K, Major::Mn);
    assert_eq!(immediates(&Product { majors, ..named("SM90_64x64x16_F32F16F16_RS") }), [1, 1, 1]);
    assert_eq!(immediates(&named("SM90_64x64x8_F32TF32TF32_SS")), [1, 1]);
    assert_eq!(immediates(&named("SM90_64x64x32_S32S8U8_SS")), []);
    assert_eq!(immediates(&named("SM90_64x64x256_S32U1U1_RS")), []);
    // The selector stands before the scales.
    assert_eq!(immediates(&named("SM90_SPARSE_64x64x32_F32F16F16_SS")), [0, 1, 1, 0, 0]);
    assert_eq!(immediates(&named("SM90_SPARSE_64x64x64_S32S8S8_RS")), [0]);
}
