//! Images beside prompts: PNG files of coloured tiles, each drawn from its prompt's index.
//!
//! A server decodes and encodes pixels, not bytes. With tiles, a request with a megapixel needs only about ten
//! kilobytes, and no image cache can reuse an image of another prompt.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use serde_json::json;

use crate::prompts::Prompt;
use crate::random::{Draws, Origin};
use crate::workload::Images;

/// The side of a tile, in pixels.
const TILE: u32 = 16;

/// Returns the images of a prompt as data URLs.
pub(crate) fn drawn(images: Images, origin: &Origin, prompt: &Prompt) -> Vec<String> {
    let parts = json!([
        images.width,
        images.height,
        prompt.phase.word(),
        prompt.index
    ]);
    let stream = origin.stream("load images v1", &parts);
    (0..images.count)
        .map(|i| {
            let png = png(images, &mut stream.at(u64::from(i)));
            format!("data:image/png;base64,{}", STANDARD.encode(png))
        })
        .collect()
}

/// Returns a PNG file (RFC 2083): 8 bits of red, green and blue, no alpha, lines without filter.
fn png(images: Images, draws: &mut Draws) -> Vec<u8> {
    let (width, height) = (images.width, images.height);
    let across = width.div_ceil(TILE) as usize;
    let mut lines = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut line: Vec<u8> = Vec::new();
    for y in 0..height {
        if y % TILE == 0 {
            let colours: Vec<[u8; 4]> = (0..across)
                .map(|_| (draws.below(1 << 24) as u32).to_le_bytes())
                .collect();
            line = vec![0];
            for x in 0..width {
                line.extend_from_slice(&colours[(x / TILE) as usize][..3]);
            }
        }
        lines.write_all(&line).expect(IN_MEMORY);
    }
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &lines.finish().expect(IN_MEMORY));
    chunk(&mut file, *b"IEND", &[]);
    file
}

const IN_MEMORY: &str = "memory takes what is written";

/// Appends a chunk: length, kind, data, and the checksum of kind and data.
fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).expect("an image is below 4 GiB");
    let mut checksum = Crc::new();
    checksum.update(&kind);
    checksum.update(data);
    for part in [
        &length.to_be_bytes()[..],
        &kind,
        data,
        &checksum.sum().to_be_bytes(),
    ] {
        file.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use pipeline::stage::Coordinates;

    use super::*;

    #[test]
    fn a_png_holds_its_pixels_and_follows_from_the_place_of_its_prompt() {
        let origin = Origin {
            seed: 1,
            replicate: Coordinates::default(),
        };
        let images = Images {
            count: 2,
            width: 33,
            height: 17,
        };
        let stream = |i: u64| origin.stream("load images v1", &json!([0])).at(i);
        let file = png(images, &mut stream(0));
        assert_eq!(file, png(images, &mut stream(0)));
        assert_ne!(file, png(images, &mut stream(1)));
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x21\0\0\0\x11\x08\x02"));
        let at = file.windows(4).position(|w| w == b"IDAT").unwrap();
        let length = u32::from_be_bytes(file[at - 4..at].try_into().unwrap()) as usize;
        let mut pixels = Vec::new();
        let mut data = flate2::read::ZlibDecoder::new(&file[at + 4..at + 4 + length]);
        data.read_to_end(&mut pixels).unwrap();
        assert_eq!(pixels.len(), 17 * (1 + 33 * 3));
        // One colour per tile: 0 to 15, then 16 to 31.
        assert_eq!(pixels[1..4], pixels[1 + 15 * 3..=16 * 3]);
        assert_ne!(pixels[1..4], pixels[1 + 16 * 3..=17 * 3]);
    }
}
