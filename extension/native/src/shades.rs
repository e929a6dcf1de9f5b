//! Six shades of a colour map for the fold bar, readable on the screen they are drawn on.

use fold_runtime::config::Palette;
use palette::color_difference::Wcag21RelativeContrast;
use palette::{FromColor, IntoColor, Mix, Okhsl, Oklab, Srgb};

/// What text has to be told from its background by (WCAG 2.1, level AA).
const CONTRAST: f32 = 4.5;
/// The least favourable backgrounds that are common: One Dark's and Solarized Light's.
const DARK: [u8; 3] = [40, 44, 52];
const LIGHT: [u8; 3] = [253, 246, 227];
/// How much of its lightness a mark keeps of the fill it is drawn over.
const DEEPER: f32 = 0.55;

/// Ten anchors of a map, from its beginning to its end; between them colours are mixed in Oklab. Batlow is Crameri's (MIT), the others are
/// Matplotlib's (CC0); cividis is by Nuñez, Anderton and Renslow.
type Map = [[u8; 3]; 10];

const BATLOW: Map = [
    [1, 25, 89],
    [16, 63, 96],
    [28, 90, 98],
    [60, 109, 86],
    [104, 123, 62],
    [157, 137, 43],
    [210, 147, 67],
    [248, 161, 123],
    [253, 183, 188],
    [250, 204, 250],
];
const VIRIDIS: Map = [
    [68, 1, 84],
    [72, 40, 120],
    [62, 73, 137],
    [49, 104, 142],
    [38, 130, 142],
    [31, 158, 137],
    [53, 183, 121],
    [110, 206, 88],
    [181, 222, 43],
    [253, 231, 37],
];
const PLASMA: Map = [
    [13, 8, 135],
    [70, 3, 159],
    [114, 1, 168],
    [156, 23, 158],
    [189, 55, 134],
    [216, 87, 107],
    [237, 121, 83],
    [251, 159, 58],
    [253, 202, 38],
    [240, 249, 33],
];
const MAGMA: Map = [
    [0, 0, 4],
    [24, 15, 61],
    [68, 15, 118],
    [114, 31, 129],
    [158, 47, 127],
    [205, 64, 113],
    [241, 96, 93],
    [253, 150, 104],
    [254, 202, 141],
    [252, 253, 191],
];
const CIVIDIS: Map = [
    [0, 32, 77],
    [0, 51, 111],
    [57, 72, 107],
    [87, 93, 109],
    [112, 113, 115],
    [138, 135, 121],
    [166, 157, 117],
    [196, 181, 108],
    [228, 207, 91],
    [255, 234, 70],
];

/// Red, green and blue, 0 to 255.
pub type Rgb = [u8; 3];

/// The six shades, from the most compressed category to the pinned one, each with the deeper tone of it that a mark has.
pub fn shades(palette: &Palette, is_dark: bool) -> Vec<(Rgb, Rgb)> {
    let (start, end) = (place(palette.start_ppm), place(palette.end_ppm));
    (0..6u8)
        .map(|step| {
            let shade = readable(sample(map(&palette.map), start + (end - start) * f32::from(step) / 5.0), is_dark);
            let deeper = Okhsl { lightness: shade.lightness * DEEPER, ..shade };
            (bytes(shade), bytes(deeper))
        })
        .collect()
}

fn place(ppm: u32) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a position on a colour map")]
    let place = ppm as f32 / 1_000_000.0;
    place
}

fn map(name: &str) -> &'static Map {
    match name {
        "viridis" => &VIRIDIS,
        "plasma" => &PLASMA,
        "magma" => &MAGMA,
        "cividis" => &CIVIDIS,
        _ => &BATLOW,
    }
}

fn sample(map: &Map, place: f32) -> Oklab {
    let place = place.clamp(0.0, 1.0) * 9.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 8")]
    let at = (place.floor() as usize).min(8);
    let anchor = |at: usize| Oklab::from_color(Srgb::from(map[at]).into_format::<f32>());
    #[expect(clippy::cast_precision_loss, reason = "from 0 to 8")]
    anchor(at).mix(anchor(at + 1), place - at as f32)
}

/// The colour with its lightness moved away from the background, hue and saturation held, until it can be read.
fn readable(colour: Oklab, is_dark: bool) -> Okhsl {
    let mut colour = Okhsl::from_color(colour);
    let background = Srgb::from(if is_dark { DARK } else { LIGHT }).into_format::<f32>();
    let step = if is_dark { 0.01 } else { -0.01 };
    while Srgb::from(bytes(colour)).into_format::<f32>().relative_contrast(background) < CONTRAST && (0.0..=1.0).contains(&(colour.lightness + step))
    {
        colour.lightness += step;
    }
    colour
}

fn bytes(colour: Okhsl) -> Rgb {
    let colour: Srgb = colour.into_color();
    colour.into_format::<u8>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::config::MAPS;
    use palette::GetHue;

    fn all() -> impl Iterator<Item = (Palette, bool)> {
        let ends = [(0, 1_000_000), (1_000_000, 0), (200_000, 300_000), (900_000, 1_000_000)];
        let palettes = MAPS.iter().flat_map(move |map| ends.map(|(start_ppm, end_ppm)| Palette { map: (*map).to_owned(), start_ppm, end_ppm }));
        palettes.flat_map(|palette| [(palette.clone(), true), (palette, false)])
    }

    #[test]
    fn every_shade_of_every_map_can_be_read_on_dark_and_on_light() {
        for (palette, is_dark) in all() {
            let background = Srgb::from(if is_dark { DARK } else { LIGHT }).into_format::<f32>();
            for (shade, _) in shades(&palette, is_dark) {
                let contrast = Srgb::from(shade).into_format::<f32>().relative_contrast(background);
                assert!(contrast >= CONTRAST, "{palette:?} {is_dark} {shade:?}: {contrast}");
            }
        }
    }

    #[test]
    fn lightness_moves_and_the_hue_is_held() {
        for (palette, is_dark) in all() {
            let (start, end) = (place(palette.start_ppm), place(palette.end_ppm));
            for (step, (shade, deeper)) in (0u8..).zip(shades(&palette, is_dark)) {
                let sampled = Okhsl::from_color(sample(map(&palette.map), start + (end - start) * f32::from(step) / 5.0));
                for colour in [shade, deeper].map(|rgb| Okhsl::from_color(Srgb::from(rgb).into_format::<f32>())) {
                    let turned = (colour.get_hue() - sampled.get_hue()).into_degrees().abs();
                    // What is nearly grey or black has no hue that eight bits could hold.
                    assert!(sampled.saturation < 0.15 || colour.lightness < 0.15 || turned < 8.0, "{palette:?} {is_dark} {step}: {turned}");
                }
            }
        }
    }

    #[test]
    fn the_ends_are_where_the_palette_says_and_a_mark_is_deeper_than_its_fill() {
        let palette = |start_ppm, end_ppm| Palette { map: "viridis".into(), start_ppm, end_ppm };
        let (there, back) = (shades(&palette(0, 1_000_000), true), shades(&palette(1_000_000, 0), true));
        assert!(there.iter().eq(back.iter().rev()));
        assert_eq!(there[5].0, [253, 231, 37], "bright enough as it is");
        let light = |rgb: Rgb| rgb.iter().map(|&channel| u32::from(channel)).sum::<u32>();
        assert!(there.iter().all(|(shade, deeper)| light(*deeper) < light(*shade)));
    }
}
