//! Numbers on the command line.

use std::ops::{Range, RangeInclusive};

use clap::builder::{StringValueParser, TypedValueParser};

/// Reads an integer of a range. A refusal names the range.
pub(crate) fn integer<T>(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    StringValueParser::new().try_map(move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected an integer from {} to {}", range.start(), range.end()))
    })
}

/// Reads `FROM..TO`, whose end is not in it.
pub(crate) fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    let range = ends.filter(|range: &Range<u64>| range.start < range.end);
    range.ok_or_else(|| "expected two integers, the smaller one first, such as 0..4".to_owned())
}
