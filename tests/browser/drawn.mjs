// Reads values from a drawn figure: axes from the labels next to their grid lines, curves from their paths,
// ink from screenshots. Does not read the data that the page's script uses.
import { decode } from "./png.mjs";

const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9, pps: 1, kpps: 1e3, Mpps: 1e6, "%": 1, millions: 1e6 };
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// Parses "10 000" as 10000, "−1.5 ms" as -1.5e6, "2·10⁶" as 2e6. Times are converted to ns.
export function number(label) {
  const text = label.replaceAll("\u202f", "").replaceAll("\u2212", "-").trim();
  const power = /^(?:([\d.]+)·)?10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)$/.exec(text);
  if (power) return Number(power[1] ?? 1) * 10 ** Number([...power[2]].map((c) => RAISED.indexOf(c)).join(""));
  const parts = /^(-?[\d.]+)(?:\u00a0(\S+))?$/.exec(text);
  if (!parts || (parts[2] && !(parts[2] in UNITS))) throw new Error(`a label that is no number: "${label}"`);
  return Number(parts[1]) * (parts[2] ? UNITS[parts[2]] : 1);
}

const PLACES = {
  linear: [(v) => v, (p) => p],
  log: [Math.log10, (p) => 10 ** p],
  nines: [(p) => -Math.log10((100 - p) / 100), (p) => 100 * (1 - 10 ** -p)],
};

// Maps values to positions in the drawing and back, from two labeled grid lines.
// `unit` is the size of the unit in the axis' name, in units of the CSV.
function axis(ticks, name) {
  const kind = name.includes("log scale") ? "log" : ticks.some((t) => t.label.includes("%")) && ticks.some((t) => t.below) ? "nines" : "linear";
  const inName = /\[(.+)\]/.exec(name)?.[1];
  const share = inName === "%";
  const unit = inName === undefined ? 1 : share ? 0.01 : UNITS[inName];
  const [place, value] = PLACES[kind];
  const known = ticks.map((t) => ({ at: t.at, place: place(number(t.label) * unit) })).filter((t) => Number.isFinite(t.place));
  const [first, last] = [known[0], known[known.length - 1]];
  const slope = (last.at - first.at) / (last.place - first.place);
  // All other ticks must agree with these two.
  for (const tick of known) {
    const expected = first.at + (tick.place - first.place) * slope;
    if (Math.abs(expected - tick.at) > 0.3) throw new Error(`a tick at ${tick.at} belongs at ${expected}`);
  }
  return {
    kind,
    at: (v) => first.at + (place(v) - first.place) * slope,
    value: (at) => value(first.place + (at - first.at) / slope),
  };
}

// Returns both axes of a figure, in units of the drawing; times in ns.
export async function axes(figure) {
  const seen = await figure.evaluate((element) => {
    const svg = element.querySelector("svg");
    const lines = [];
    for (const path of svg.querySelectorAll(".grid")) {
      for (const [, x, y, way] of path.getAttribute("d").matchAll(/M([\d.]+) ([\d.]+)([VH])/g)) lines.push({ x: +x, y: +y, way });
    }
    const nearest = (text, way) => {
      const box = text.getBBox();
      const [key, at] = way === "V" ? ["x", box.x + box.width / 2] : ["y", box.y + box.height / 2];
      const places = lines.filter((line) => line.way === way).map((line) => line[key]);
      return places.reduce((best, place) => (Math.abs(place - at) < Math.abs(best - at) ? place : best));
    };
    const ticks = (name, way) =>
      [...svg.querySelectorAll(`.tick.${name}`)].map((tick) => {
        const [label, below] = tick.querySelectorAll("text");
        return { at: nearest(label, way), label: label.textContent, below: below?.textContent };
      });
    const [y, x] = [...svg.querySelectorAll(".name")].map((text) => text.textContent);
    return { x: { name: x, ticks: ticks("x", "V") }, y: { name: y, ticks: ticks("y", "H") } };
  });
  return { x: axis(seen.x.ticks, seen.x.name), y: axis(seen.y.ticks, seen.y.name) };
}

// Returns the vertices of a drawn line: [[x, y], ...] for each piece, from M, L, H and V.
export function pieces(d) {
  const all = [];
  let [x, y] = [0, 0];
  for (const [, command, numbers] of d.matchAll(/([MLHV])([^A-Za-z]*)/g)) {
    const values = numbers.trim().split(/[\s,]+/).map(Number);
    if (command === "H") [x] = values;
    else if (command === "V") [y] = values;
    else [x, y] = values;
    if (command === "M") all.push([]);
    all.at(-1).push([x, y]);
  }
  return all;
}

// Returns the lowest and the highest position of the pieces at `x`, within `slack`.
export function heights(all, x, slack) {
  let [low, high] = [Infinity, -Infinity];
  const add = (y) => ([low, high] = [Math.min(low, y), Math.max(high, y)]);
  for (const piece of all) {
    for (let i = 1; i < piece.length; i++) {
      const [[x0, y0], [x1, y1]] = [piece[i - 1], piece[i]];
      const [from, to] = [Math.max(Math.min(x0, x1), x - slack), Math.min(Math.max(x0, x1), x + slack)];
      if (from > to) continue;
      if (x0 === x1) [y0, y1].forEach(add);
      else [from, to].forEach((at) => add(y0 + ((y1 - y0) * (at - x0)) / (x1 - x0)));
    }
  }
  return [low, high];
}

// Returns the pixels that a part of the figure draws, by comparing screenshots with and without it.
// Positions are in units of the drawing.
export async function ink(figure, selector, index = 0) {
  const svg = figure.locator("svg");
  const show = (state) =>
    figure.evaluate(
      (element, [selector, index, state]) => {
        const parts = [...element.querySelectorAll(selector)];
        element.querySelectorAll(".series").forEach((part) => (part.style.visibility = state === "all" ? "" : "hidden"));
        if (state === "part") parts[index].style.visibility = "visible";
      },
      [selector, index, state],
    );
  await show("part");
  const having = decode(await svg.screenshot());
  await show("none");
  const missing = decode(await svg.screenshot());
  await show("all");
  const scale = having.width / (await svg.evaluate((element) => element.viewBox.baseVal.width));
  const seen = { count: 0, left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (let y = 0; y < having.height; y++) {
    for (let x = 0; x < having.width; x++) {
      const [a, b] = [having.at(x, y), missing.at(x, y)];
      if (Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) + Math.abs(a[2] - b[2]) < 24) continue;
      seen.count += 1;
      seen.left = Math.min(seen.left, x / scale);
      seen.right = Math.max(seen.right, (x + 1) / scale);
      seen.top = Math.min(seen.top, y / scale);
      seen.bottom = Math.max(seen.bottom, (y + 1) / scale);
    }
  }
  return seen;
}
