//! Pictures of the campaign, as SVG.

use super::Came;
use fold_models::price::Used;
use plotters::prelude::*;
use std::path::{Path, PathBuf};

const SIZE: (u32, u32) = (1_000, 560);

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Draw = fn(&[Came], u64, &Path) -> Drawn;

/// Writes all of them into a folder; tells their paths.
pub(super) fn write(came: &[Came], window: u64, folder: &Path) -> Result<Vec<PathBuf>, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{} could not be made: {error}", folder.display()))?;
    let drawn: [(&str, Draw); 3] = [("occupancy.svg", occupancy), ("cost.svg", cost), ("pareto.svg", pareto)];
    let mut paths = Vec::new();
    for (name, draw) in drawn {
        let path = folder.join(name);
        draw(came, window, &path).map_err(|error| format!("{} could not be drawn: {error}", path.display()))?;
        paths.push(path);
    }
    Ok(paths)
}

/// Shades that tell ten arms apart, also for most of those who do not see all colours (Okabe and Ito's palette, and two greys).
fn shade(at: usize) -> RGBColor {
    const SHADES: [(u8, u8, u8); 10] = [
        (0, 114, 178),
        (0, 0, 0),
        (213, 94, 0),
        (0, 158, 115),
        (86, 180, 233),
        (230, 159, 0),
        (204, 121, 167),
        (120, 94, 240),
        (120, 120, 120),
        (180, 180, 180),
    ];
    let (red, green, blue) = SHADES[at % SHADES.len()];
    RGBColor(red, green, blue)
}

#[expect(clippy::cast_precision_loss, reason = "a picture has a thousand points across")]
fn real(number: u64) -> f64 {
    number as f64
}

/// Tokens of every request, arm by arm.
fn occupancy(came: &[Came], window: u64, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let longest = came.iter().map(|of| of.meters.prompts().len()).max().unwrap_or(1).max(1);
    let mut chart = ChartBuilder::on(&root)
        .caption("tokens of each request", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0..longest, 0..window)?;
    chart
        .configure_mesh()
        .x_desc("request")
        .y_desc("tokens")
        .y_label_formatter(&|tokens| format!("{} k", tokens / 1_000))
        .light_line_style(WHITE)
        .draw()?;
    for (at, of) in came.iter().enumerate() {
        let points = of.meters.prompts().iter().copied().enumerate();
        let style = shade(at).stroke_width(2);
        chart.draw_series(LineSeries::new(points, style))?.label(of.arm.name()).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.85)).border_style(BLACK.mix(0.3)).draw()?;
    root.present()?;
    Ok(())
}

/// What an arm's dollars are made of, before the first cache that has a price.
fn parts(of: &Came) -> [(&'static str, u64); 5] {
    let Some((totals, rates)) = of.meters.iter().find_map(|meter| Some((meter.totals, meter.price.as_ref()?.rates))) else { return [("", 0); 5] };
    let Used { fresh, cached, written, output } = totals.used;
    [
        ("fresh", fresh * rates.input),
        ("read from the cache", cached * rates.cached),
        ("written to it", written * rates.written),
        ("output", output * rates.output),
        ("surcharge of the tier", totals.tiered - totals.flat),
    ]
}

/// Dollars by component, a bar for each arm.
fn cost(came: &[Came], _: u64, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let dollars = |nano: u64| real(nano) / 1e9;
    let most = came.iter().map(|of| parts(of).iter().map(|(_, nano)| nano).sum()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(&root)
        .caption("dollars by what they were paid for, first cache of the tables", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((0..came.len()).into_segmented(), 0.0..dollars(most) * 1.25)?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => came.get(*at).map_or("", |of| of.arm.name()).to_owned(),
        _ => String::new(),
    };
    chart.configure_mesh().disable_x_mesh().x_labels(came.len() + 1).x_label_formatter(&name).y_desc("dollars").light_line_style(WHITE).draw()?;
    for part in 0..5 {
        let style = shade([0, 4, 3, 5, 2][part]).filled();
        let bar = |at: usize, of: &Came| {
            let below: u64 = parts(of)[..part].iter().map(|(_, nano)| nano).sum();
            let upto = below + parts(of)[part].1;
            let mut bar = Rectangle::new([(SegmentValue::Exact(at), dollars(below)), (SegmentValue::Exact(at + 1), dollars(upto))], style);
            bar.set_margin(0, 0, 12, 12);
            bar
        };
        let label = came.first().map_or("", |of| parts(of)[part].0);
        let bars: Vec<_> = came.iter().enumerate().map(|(at, of)| bar(at, of)).collect();
        chart.draw_series(bars)?.label(label).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Cost against facts kept: in sight as a full dot, within one call as a ring.
fn pareto(came: &[Came], _: u64, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    // Who ended early was asked nothing.
    let came: Vec<&Came> = came.iter().filter(|of| of.report.stops.is_empty()).collect();
    let paid = |of: &Came| real(parts(of).iter().map(|(_, nano)| nano).sum()) / 1e9;
    let most = came.iter().map(|of| paid(of)).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption("dollars against facts kept of sixteen: in sight (dot), and with one call of a tool (ring)", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..most * 1.2, 0..17_u64)?;
    chart.configure_mesh().x_desc("dollars, first cache of the tables").y_desc("facts").light_line_style(WHITE).draw()?;
    for (at, of) in came.iter().enumerate() {
        let count = |names: &[&str]| names.iter().filter_map(|name| of.report.facts.get(name)).sum::<u64>();
        let sight = count(&["raw", "brief"]);
        let reach = sight + count(&["clipped", "one peek", "several peeks"]);
        let (dollars, colour) = (paid(of), shade(at));
        chart.draw_series([PathElement::new([(dollars, sight), (dollars, reach)], colour.mix(0.4).stroke_width(1))])?;
        chart.draw_series([Circle::new((dollars, reach), 7, colour.stroke_width(2))])?;
        chart
            .draw_series([Circle::new((dollars, sight), 5, colour.filled())])?
            .label(of.arm.name())
            .legend(move |(x, y)| Circle::new((x + 8, y), 5, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
