//! The options of a workload, as flags, text and JSON.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use serde_json::Value as Json;
use strum::{EnumMessage, VariantArray};

/// What an automatic option is set to and shown as.
const AUTO: &str = "auto";

/// A struct whose fields are options; made by `derive(Options)`.
pub trait Options: Clone + Default + fmt::Display + 'static {
    /// The doc comment of the struct.
    const ABOUT: &'static str;

    /// The options, in the order of the fields.
    fn specs() -> Vec<OptionSpec>;

    /// Sets an option from text.
    ///
    /// # Errors
    /// No option has this name, or the text is not one of its values.
    fn set(&mut self, name: &str, text: &str) -> Result<(), OptionError>;

    /// The value of an option; `None` if no option has this name. An automatic value is `null`.
    fn get(&self, name: &str) -> Option<Json>;

    /// The value of an option as [`set`](Self::set) takes it; `None` if no option has this name.
    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| text_of(&value))
    }

    /// All options as flags: `--rows 64 --threads auto`. A `bool` is shown only if it is set.
    fn flags(&self) -> String {
        self.flags_without("")
    }

    /// All options but one as flags.
    fn flags_without(&self, without: &str) -> String {
        let kept = Self::specs().into_iter().filter(|spec| spec.name != without);
        let flags = kept.filter_map(|spec| match self.get(spec.name).unwrap_or_default() {
            Json::Bool(false) => None,
            Json::Bool(true) => Some(format!("--{}", spec.name)),
            value => Some(format!("--{} {}", spec.name, text_of(&value))),
        });
        flags.collect::<Vec<_>>().join(" ")
    }

    /// The options as a JSON object.
    fn to_json(&self) -> Json {
        let values = Self::specs()
            .into_iter()
            .map(|spec| (spec.name.to_owned(), self.get(spec.name).unwrap_or_default()));
        Json::Object(values.collect())
    }

    /// The options from a JSON object. Options that it does not have keep their defaults.
    ///
    /// # Errors
    /// The value is no object, it has a member that is no option, or a member that is not a value
    /// of its option.
    fn from_json(json: &Json) -> Result<Self, OptionError> {
        let object = json.as_object().ok_or_else(|| OptionError {
            name: String::new(),
            kind: OptionErrorKind::Value,
            message: format!("expected a JSON object of options, found {json}"),
        })?;
        let mut options = Self::default();
        for (name, value) in object {
            options.set(name, &text_of(value))?;
        }
        Ok(options)
    }
}

/// A JSON value as [`Options::set`] takes it.
fn text_of(value: &Json) -> String {
    match value {
        Json::Null => AUTO.to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One option of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// The name of its flag without the hyphens.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The form of its values.
    pub form: Form,
    /// Whether it may be `auto`.
    pub is_automatic: bool,
    /// The default as text.
    pub default: String,
    /// The smallest and the largest value of a number.
    pub range: (Option<f64>, Option<f64>),
    /// The values that autotuning tries, as text.
    pub search: Vec<String>,
}

impl OptionSpec {
    /// The option of a field of type `T`.
    pub fn new<T: OptionValue<Kind>, Kind>(
        name: &'static str,
        help: &'static str,
        default: &T,
        range: (Option<f64>, Option<f64>),
        search: Vec<T>,
    ) -> Self {
        let search = search.iter().map(T::text).collect();
        Self {
            name,
            help,
            form: T::form(),
            is_automatic: T::IS_AUTOMATIC,
            default: default.text(),
            range,
            search,
        }
    }

    /// The words of a choice; none for other forms.
    pub fn choices(&self) -> Vec<&'static str> {
        match &self.form {
            Form::Choice(choices) => choices.iter().map(|(word, _)| *word).collect(),
            _ => Vec::new(),
        }
    }
}

/// The form of an option's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// An integer.
    Integer,
    /// A floating-point number.
    Float,
    /// A flag without a value.
    Flag,
    /// One of several words, each with its help text.
    Choice(Vec<(&'static str, String)>),
}

/// The kind of numbers and flags.
#[derive(Debug)]
pub enum Plain {}

/// The kind of enums of unit variants.
#[derive(Debug)]
pub enum Choice {}

/// The kind of values that may be `auto`.
#[derive(Debug)]
pub struct Automatic<Kind>(PhantomData<Kind>);

/// A type that an option may have. `Kind` tells the implementations apart; it is inferred.
pub trait OptionValue<Kind>: Clone + PartialEq {
    /// The form of its values.
    fn form() -> Form;
    /// Whether it may be `auto`.
    const IS_AUTOMATIC: bool = false;
    /// The type of a value that is not `auto`.
    type Fixed;

    /// The value that is not `auto`.
    fn fixed(value: Self::Fixed) -> Self;

    /// The value that a text stands for.
    ///
    /// # Errors
    /// It stands for none; the error is a sentence.
    fn parse(text: &str) -> Result<Self, String>;

    /// The value as [`parse`](Self::parse) takes it.
    fn text(&self) -> String;

    /// The value as JSON: a number, a boolean, a string, or `null` for `auto`.
    fn json(&self) -> Json {
        Json::String(self.text())
    }

    /// The value as a number, to be compared with the range of the option.
    fn number(&self) -> Option<f64> {
        None
    }
}

macro_rules! numbers {
    ($form:expr, $expected:literal: $($ty:ty)*) => {
        $(impl OptionValue<Plain> for $ty {
            fn form() -> Form {
                $form
            }

            type Fixed = Self;

            fn fixed(value: Self) -> Self {
                value
            }

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("`{text}` is not {}", $expected))
            }

            fn text(&self) -> String {
                self.to_string()
            }

            fn json(&self) -> Json {
                Json::from(*self)
            }

            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        })*
    };
}

numbers! { Form::Integer, "an integer from 0 to 4294967295": u32 }
numbers! { Form::Integer, "a non-negative integer": u64 usize }
numbers! { Form::Integer, "an integer": i32 i64 }
numbers! { Form::Float, "a number": f64 }

impl OptionValue<Plain> for f32 {
    fn form() -> Form {
        Form::Float
    }

    type Fixed = Self;

    fn fixed(value: Self) -> Self {
        value
    }

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not a number"))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        // The shortest decimal that is this f32, not the f64 that it widens to.
        self.to_string().parse::<f64>().map_or(Json::Null, Json::from)
    }

    fn number(&self) -> Option<f64> {
        Some(f64::from(*self))
    }
}

impl OptionValue<Plain> for bool {
    fn form() -> Form {
        Form::Flag
    }

    type Fixed = Self;

    fn fixed(value: Self) -> Self {
        value
    }

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is neither true nor false"))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        Json::Bool(*self)
    }
}

impl<T> OptionValue<Choice> for T
where
    T: VariantArray + EnumMessage + Clone + PartialEq,
    for<'a> &'static str: From<&'a T>,
{
    type Fixed = Self;

    fn form() -> Form {
        let choice = |value: &Self| {
            let help = value.get_documentation().unwrap_or_default();
            (<&str>::from(value), help.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        Form::Choice(Self::VARIANTS.iter().map(choice).collect())
    }

    fn fixed(value: Self) -> Self {
        value
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value = Self::VARIANTS.iter().find(|value| <&str>::from(*value) == text);
        value.cloned().ok_or_else(|| format!("`{text}` is not one of {}", words::<Self>().join(", ")))
    }

    fn text(&self) -> String {
        <&str>::from(self).to_owned()
    }
}

/// The words of an enum whose values are an option's, in order.
pub fn words<T: VariantArray>() -> Vec<&'static str>
where
    for<'a> &'static str: From<&'a T>,
{
    T::VARIANTS.iter().map(<&str>::from).collect()
}

impl<Kind, T: OptionValue<Kind>> OptionValue<Automatic<Kind>> for Option<T> {
    const IS_AUTOMATIC: bool = true;
    type Fixed = T;

    fn form() -> Form {
        T::form()
    }

    fn fixed(value: T) -> Self {
        Some(value)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == AUTO { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn text(&self) -> String {
        self.as_ref().map_or(AUTO.to_owned(), T::text)
    }

    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::json)
    }

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(T::number)
    }
}

/// An option that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The name of the option.
    pub name: String,
    /// Whether the name or the value is wrong.
    pub kind: OptionErrorKind,
    /// What is wrong.
    pub message: String,
}

/// What of an option is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionErrorKind {
    /// No option has this name.
    Unknown,
    /// The text is not one of its values.
    Value,
}

impl OptionError {
    /// The error for a name that no option of `O` has.
    pub fn unknown<O: Options>(name: &str) -> Self {
        let known: Vec<_> = O::specs().iter().map(|spec| spec.name).collect();
        let message = format!("unknown option; expected one of {}", known.join(", "));
        Self { name: name.to_owned(), kind: OptionErrorKind::Unknown, message }
    }

    /// The value of option `name` that `text` stands for, checked against the option's range.
    ///
    /// # Errors
    /// The text stands for no value, or for one outside the range.
    pub fn checked<T: OptionValue<Kind>, Kind>(
        name: &str,
        text: &str,
        (min, max): (Option<f64>, Option<f64>),
    ) -> Result<T, Self> {
        let error = |message| Self { name: name.to_owned(), kind: OptionErrorKind::Value, message };
        let value = T::parse(text).map_err(error)?;
        if value.number().is_some_and(|number| !number.is_finite()) {
            return Err(error(format!("`{text}` is not a finite number")));
        }
        match (value.number(), min, max) {
            (Some(number), Some(min), _) if number < min => {
                Err(error(format!("`{text}` is less than the minimum, {min}")))
            }
            (Some(number), _, Some(max)) if number > max => {
                Err(error(format!("`{text}` is greater than the maximum, {max}")))
            }
            _ => Ok(value),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "--{}: {}", self.name, self.message)
        }
    }
}

impl Error for OptionError {}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strum::IntoStaticStr;

    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
    #[strum(serialize_all = "kebab-case")]
    enum Order {
        /// Row by row.
        #[default]
        RowMajor,
        #[strum(serialize = "column")]
        ColumnMajor,
    }

    /// Options that several workloads share.
    #[derive(Clone, Debug, PartialEq, warpwright_harness_macros::Options)]
    struct Tuning {
        /// Threads per CTA.
        #[option(search = [128, 256], min = 32, max = 1024)]
        threads: Option<u32>,
    }

    /// A product.
    #[derive(Clone, Debug, PartialEq, warpwright_harness_macros::Options)]
    struct Product {
        /// Rows.
        #[option(default = 64, min = 1)]
        m: u64,
        /// Factor.
        #[option(default = 1.5)]
        alpha: f32,
        /// Transposed.
        transposed: bool,
        /// Order of A.
        #[option(name = "layout")]
        order: Order,
        /// Flattened.
        #[option(flatten)]
        tuning: Tuning,
    }

    #[test]
    fn flags_show_every_option_and_set_them_again() {
        let mut product = Product::default();
        assert_eq!(product.to_string(), "--m 64 --alpha 1.5 --layout row-major --threads auto");
        for (name, text) in
            [("m", "7"), ("alpha", "0.37"), ("transposed", "true"), ("layout", "column"), ("threads", "64")]
        {
            product.set(name, text).expect("a value");
        }
        let expected = Product {
            m: 7,
            alpha: 0.37,
            transposed: true,
            order: Order::ColumnMajor,
            tuning: Tuning { threads: Some(64) },
        };
        assert_eq!(product, expected);
        assert_eq!(product.to_string(), "--m 7 --alpha 0.37 --transposed --layout column --threads 64");
        assert_eq!(
            product.to_json(),
            json!({"m": 7, "alpha": 0.37, "transposed": true, "layout": "column", "threads": 64})
        );
        assert_eq!(Product::from_json(&product.to_json()), Ok(product));
        assert_eq!(Product::from_json(&Product::default().to_json()), Ok(Product::default()));
    }

    #[test]
    fn specs_are_the_fields() {
        let specs = Product::specs();
        let names: Vec<_> = specs.iter().map(|spec| (spec.name, spec.help, spec.default.as_str())).collect();
        assert_eq!(
            names,
            [
                ("m", "Rows.", "64"),
                ("alpha", "Factor.", "1.5"),
                ("transposed", "Transposed.", "false"),
                ("layout", "Order of A.", "row-major"),
                ("threads", "Threads per CTA.", "auto"),
            ]
        );
        let orders = vec![("row-major", "Row by row.".to_owned()), ("column", String::new())];
        assert_eq!(specs[3].form, Form::Choice(orders));
        assert_eq!(
            (specs[4].is_automatic, specs[4].search.as_slice()),
            (true, &["128".to_owned(), "256".to_owned()][..])
        );
        assert_eq!(Product::ABOUT, "A product.");
    }

    #[test]
    fn errors_name_the_option_and_what_it_takes() {
        let error = |name, text| Product::default().set(name, text).expect_err("no value").to_string();
        assert_eq!(error("m", "0"), "--m: `0` is less than the minimum, 1");
        assert_eq!(error("m", "x"), "--m: `x` is not a non-negative integer");
        assert_eq!(error("threads", "2048"), "--threads: `2048` is greater than the maximum, 1024");
        assert_eq!(error("alpha", "one"), "--alpha: `one` is not a number");
        assert_eq!(error("alpha", "nan"), "--alpha: `nan` is not a finite number");
        assert_eq!(error("alpha", "-inf"), "--alpha: `-inf` is not a finite number");
        assert_eq!(error("layout", "diagonal"), "--layout: `diagonal` is not one of row-major, column");
        assert_eq!(
            error("n", "1"),
            "--n: unknown option; expected one of m, alpha, transposed, layout, threads"
        );
        assert_eq!(
            Product::from_json(&json!([])).expect_err("no object").to_string(),
            "expected a JSON object of options, found []"
        );
    }
}
