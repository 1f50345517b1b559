// A PNG decoder for screenshots: eight bits per channel, RGB or RGBA, not interlaced.
import { inflateSync } from "node:zlib";

// Returns { width, height, at(x, y) -> [r, g, b] }.
export function decode(buffer) {
  let header = null;
  const data = [];
  for (let position = 8; position < buffer.length; ) {
    const length = buffer.readUInt32BE(position);
    const type = buffer.toString("latin1", position + 4, position + 8);
    const body = buffer.subarray(position + 8, position + 8 + length);
    if (type === "IHDR") header = body;
    if (type === "IDAT") data.push(body);
    position += 12 + length;
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const channels = { 2: 3, 6: 4 }[header[9]];
  if (header[8] !== 8 || !channels || header[12] !== 0) throw new Error("a PNG of another kind");
  const pixels = unfilter(inflateSync(Buffer.concat(data)), height, width * channels, channels);
  const at = (x, y) => {
    const start = y * width * channels + x * channels;
    return [pixels[start], pixels[start + 1], pixels[start + 2]];
  };
  return { width, height, at };
}

function unfilter(raw, height, stride, channels) {
  const out = Buffer.alloc(height * stride);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let i = 0; i < stride; i++) {
      const left = i >= channels ? out[y * stride + i - channels] : 0;
      const up = y > 0 ? out[(y - 1) * stride + i] : 0;
      const corner = y > 0 && i >= channels ? out[(y - 1) * stride + i - channels] : 0;
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[y * stride + i] = raw[y * (stride + 1) + 1 + i] + predicted;
    }
  }
  return out;
}

function paeth(left, up, corner) {
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(left + up - corner - value));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}
