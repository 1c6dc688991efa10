//! Figures.
use crate::data::Data;
use crate::settings::FigureSettings;
pub(crate) fn draw(_: &Data, _: &FigureSettings, _: &str, _: &str) -> Result<String, String> {
    Ok(String::new())
}
