// Renders a report in a real browser and compares the figures with summary.json.
//
//   WIRETAIL_REPORT_DIR          a directory of `wiretail analyze --out`: report.html, summary.json, figures/
//   WIRETAIL_HOSTILE_REPORT_DIR  the same for captures with HTML in their names (skipped if unset)
//   WIRETAIL_SAMPLE_DIR          pages of the example `sample_report` of wiretail-report (skipped if unset)
//   WIRETAIL_CHROMIUM            the browser, default /usr/bin/chromium
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { axes, heights, ink, pieces } from "./drawn.mjs";

const directory = process.env.WIRETAIL_REPORT_DIR;
const samples = process.env.WIRETAIL_SAMPLE_DIR;
const hostile = process.env.WIRETAIL_HOSTILE_REPORT_DIR;
assert.ok(directory, "WIRETAIL_REPORT_DIR must name a directory of `wiretail analyze --out`");

// Timestamps since 1970 exceed the precision of a double and are parsed as BigInt.
const readSummary = (from) =>
  JSON.parse(readFileSync(join(from, "summary.json"), "utf8").replace(/(":\s*)(-?\d{16,})(?=\s*[,}\]])/g, '$1"$2n"'), (_, value) =>
    typeof value === "string" && /^-?\d{16,}n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
  );
const summary = readSummary(directory);
const seconds = (ns, origin) => Number(BigInt(ns) - BigInt(origin)) / 1e9;

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.WIRETAIL_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
  });
});
after(() => browser?.close());

// Opens a report and runs `look`. Fails if the page requests anything outside its file, writes to the console,
// throws, or opens a dialog.
async function visit(from, options, look) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...options });
  try {
    const page = await context.newPage();
    const url = pathToFileURL(resolve(from, "report.html")).href;
    const unwanted = [];
    page.on("request", (request) => {
      const asked = request.url();
      if (asked !== url && !asked.startsWith("data:") && !asked.startsWith("blob:")) unwanted.push(`request: ${asked}`);
    });
    page.on("console", (message) => unwanted.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => unwanted.push(`error: ${error}`));
    page.on("dialog", (dialog) => {
      unwanted.push(`dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    await page.goto(url);
    await look(page);
    assert.deepEqual(unwanted, []);
  } finally {
    await context.close();
  }
}

const figures = async (page) => {
  const all = await page.locator("figure[data-figure]").all();
  assert.ok(all.length >= 5, `only ${all.length} figures`);
  return all;
};
const figure = (page, id) => page.locator(`figure[data-figure="${id}"]`);
const nameOf = (element) => element.getAttribute("data-figure");

// Checks that every series of every figure draws at least `least` pixels, all within its figure.
async function everySeriesIsSeen(page, least = 40) {
  for (const element of await figures(page)) {
    const id = await nameOf(element);
    const count = await element.locator(".series").count();
    assert.ok(count > 0, `${id}: no series`);
    for (let index = 0; index < count; index++) {
      const seen = await ink(element, ".series", index);
      assert.ok(seen.count >= least, `${id}, series ${index}: ${seen.count} pixels of ink`);
      assert.ok(seen.right - seen.left > 20, `${id}, series ${index}: a spot from ${seen.left} to ${seen.right}`);
    }
  }
}

// Returns the rows of a figure's CSV, downloaded with its link.
async function download(page, element) {
  const [event] = await Promise.all([page.waitForEvent("download"), element.locator("a.csv").click()]);
  const text = readFileSync(await event.path(), "utf8");
  return { text, file: event.suggestedFilename(), ...parse(text) };
}

function parse(text) {
  const rows = text.trimEnd().split("\n").map((line) => {
    const fields = [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map((match) => match[1]);
    return fields.slice(0, line.endsWith(",") ? undefined : -1).map((f) => (f.startsWith('"') ? f.slice(1, -1).replaceAll('""', '"') : f));
  });
  const header = rows.shift();
  return { header, rows: rows.map((row) => ({ series: row[0], x: row[1], y: row[2], fields: row })) };
}

// Moves the mouse to a position in the drawing and reads the tooltip.
async function point(page, element, x, y) {
  await element.locator("svg").scrollIntoViewIfNeeded();
  const at = await element.locator("svg").evaluate(
    (svg, [x, y]) => {
      const point = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
      return [point.x, point.y];
    },
    [x, y],
  );
  await page.mouse.move(...at);
  const tip = element.locator(".tip");
  await tip.waitFor({ state: "visible", timeout: 2000 });
  return read(tip);
}

const read = (tip) => tip.evaluate((t) => ({ ...t.dataset, text: t.innerText.replaceAll("\u202f", "").replaceAll("\u00a0", " ") }));
const plotBox = (element) =>
  element.locator("svg").evaluate((svg) => {
    const [, left, bottom, right] = /M([\d.]+) ([\d.]+)H([\d.]+)/.exec(svg.querySelector(".axis").getAttribute("d")).map(Number);
    const top = Math.min(...[...svg.querySelector(".grid").getAttribute("d").matchAll(/V([\d.]+)/g)].map((m) => Number(m[1])));
    return { left, right, top, bottom };
  });

test("draws every curve, cloud and bar, without external requests", () =>
  visit(directory, {}, async (page) => {
    await everySeriesIsSeen(page);
    assert.equal(await page.locator("h1").innerText(), summary.title);
  }));

// Returns the percentiles of summary.json up to the end of the plot, which is the last packet.
async function plotted(page, element) {
  const { rows } = await download(page, element);
  const last = Math.max(...rows.map((row) => Number(row.x)));
  return summary.delay.percentiles.filter((p) => p.percentile <= last);
}

test("the percentile plot shows the percentiles of summary.json", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "percentiles");
    const { x, y } = await axes(element);
    assert.equal(x.kind, "nines");
    const paths = await element.locator(".series .line").evaluateAll((all) => all.map((path) => path.getAttribute("d")));
    const drawn = paths.flatMap(pieces);
    const reach = Math.max(...drawn.flat().map(([at]) => at));
    let checked = 0;
    for (const { percentile, value_ns } of await plotted(page, element)) {
      const at = x.at(percentile);
      const [top, bottom] = heights(drawn, at, 0.6);
      const expected = y.at(value_ns);
      assert.ok(expected >= top - 0.6 && expected <= bottom + 0.6, `p${percentile}: ${value_ns} ns belongs at ${expected}, drawn ${top} to ${bottom}`);
      // Converted with the axis, the drawn line has the value within one pixel.
      const [low, high] = [y.value(bottom + 1), y.value(top - 1)];
      assert.ok(value_ns >= low && value_ns <= high, `p${percentile}: ${value_ns} ns is read as ${low} to ${high}`);
      checked += 1;
    }
    assert.ok(checked >= 5, `only ${checked} percentiles lie on the plot`);
    const seen = await ink(element, ".series");
    assert.ok(Math.abs(seen.right - reach) < 4, `ink ends at ${seen.right}, the curve at ${reach}`);
  }));

test("unsupported percentiles are marked in the plot, the tiles and the table", () =>
  visit(directory, {}, async (page) => {
    for (const { percentile, supported } of summary.delay.percentiles) {
      const row = page.locator("#delay tbody tr", { has: page.locator("th", { hasText: new RegExp(`^${String(percentile).replace(".", "\\.")}\\s%$`) }) });
      assert.equal(await row.count(), 1, `p${percentile} in the table`);
      assert.equal((await row.innerText()).includes("n(1−p) < 10"), !supported, `p${percentile}`);
    }
    if (summary.delay.percentiles.some((p) => !p.supported && 100 / (100 - p.percentile) <= summary.delay.count)) {
      assert.ok((await figure(page, "percentiles").locator(".series .weak").count()) > 0);
    }
  }));

test("the worst packets are dots at the positions in summary.json", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "worst");
    const { x, y } = await axes(element);
    const dots = await element.locator(".series .dots").evaluateAll((all) => all.map((path) => path.getAttribute("d")));
    const drawn = dots.flatMap((d) => [...d.matchAll(/M([\d.]+) ([\d.]+)h0/g)].map((m) => [Number(m[1]), Number(m[2])]));
    const second = x.kind === "linear" ? 1e9 : NaN;
    for (const worst of summary.worst.slice(0, 200)) {
      const at = [x.at(seconds(worst.post_ns, summary.post.first_ns) * second), y.at(worst.delay_ns)];
      const distance = Math.min(...drawn.map(([dx, dy]) => Math.hypot(dx - at[0], dy - at[1])));
      assert.ok(distance < 0.5, `${worst.delay_ns} ns: the nearest dot is ${distance} away from ${at}`);
    }
    const seen = await ink(element, ".series");
    const highest = y.at(summary.worst[0].delay_ns);
    assert.ok(Math.abs(seen.top - (highest - 1.6)) < 1.6, `ink starts at ${seen.top}, the worst packet lies at ${highest}`);
  }));

test("hover snaps to the nearest point and shows the numbers of the CSV, in every figure", () =>
  visit(directory, {}, async (page) => {
    for (const element of await figures(page)) {
      const id = await nameOf(element);
      const { header, rows } = await download(page, element);
      const known = new Set(rows.map((row) => [row.series, row.x, row.y].join("\n")));
      const box = await plotBox(element);
      const { x } = await axes(element);
      const place = (value) => x.at(header[1].endsWith("_s") ? value * 1e9 : Number(value));
      const places = rows.map((row) => place(row.x)).filter(Number.isFinite);
      const bars = (await element.locator(".series .bar").count()) > 0;
      const cloud = (await element.locator(".series .dots").count()) > 0;
      // The position of a bar is its middle, half a bar to the right of its value.
      const bar = rows.length > 1 ? Math.abs(place(rows[1].x) - place(rows[0].x)) : box.right - box.left;
      const slack = bars ? bar + 0.6 : 0.6;
      const seen = new Set();
      for (const share of [0.03, 0.2, 0.41, 0.6, 0.77, 0.97]) {
        const at = box.left + share * (box.right - box.left);
        const tip = await point(page, element, at, (box.top + 2 * box.bottom) / 3);
        const row = [tip.series, tip.x, tip.y].join("\n");
        assert.ok(known.has(row), `${id}: the tooltip shows ${row}, which is not in the CSV`);
        seen.add(row);
        const least = Math.min(...places.map((value) => Math.abs(value - at)));
        const distance = Math.abs(place(tip.x) - at);
        assert.ok(cloud || distance <= least + slack, `${id}: a point ${distance} away is shown, one is ${least} away`);
      }
      assert.ok(seen.size > 1 || rows.length === 1, `${id}: the tooltip never changes`);
      await page.mouse.move(1, 1);
      assert.equal(await element.locator(".tip").isVisible(), false, `${id}: the tooltip stays`);
    }
  }));

test("hover over the percentiles agrees with summary.json", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "percentiles");
    const { x, y } = await axes(element);
    const box = await plotBox(element);
    let checked = 0;
    for (const p of await plotted(page, element)) {
      const at = x.at(p.percentile);
      const tip = await point(page, element, Math.min(at, box.right), y.at(p.value_ns) + 40);
      assert.equal(Number(tip.x), p.percentile);
      assert.equal(Number(tip.y), p.value_ns);
      assert.ok(tip.text.includes(`${p.value_ns} ns`), `p${p.percentile}: ${tip.text}`);
      assert.ok(tip.text.includes(`${p.percentile} %`), tip.text);
      assert.equal(Number(tip.low), p.low_ns);
      if (p.high_ns !== null) assert.equal(Number(tip.high), p.high_ns);
      assert.equal(tip.text.includes("not supported"), !p.supported, tip.text);
      checked += 1;
    }
    assert.ok(checked >= 5, `only ${checked} percentiles lie on the plot`);
  }));

test("hover over the worst packets agrees with summary.json", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "worst");
    const { x, y } = await axes(element);
    const points = summary.worst.map((w) => ({ ...w, time: seconds(w.post_ns, summary.post.first_ns) }));
    const places = points.map((p) => [x.at(p.time * 1e9), y.at(p.delay_ns)]);
    for (const index of [0, 1, 2, 5, Math.floor(points.length / 2), points.length - 1].filter((i) => i < points.length)) {
      // Slightly off the point, but nearer to it than to any other visibly distinct point.
      const [px, py] = places[index];
      const tip = await point(page, element, px + 0.2, py - 0.2);
      const same = points.filter((_, i) => Math.hypot(places[i][0] - px, places[i][1] - py) < 0.8);
      assert.ok(
        same.some((p) => Number(tip.y) === p.delay_ns && Number(tip.x) === p.time),
        `worst ${index}: expected ${points[index].delay_ns} ns at ${points[index].time} s, the tooltip says ${tip.y} at ${tip.x}`,
      );
      assert.ok(tip.text.includes(`${tip.y} ns`), tip.text);
    }
  }));

test("hover over the cumulative distribution agrees with the curve of summary.json", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "cdf");
    const { x } = await axes(element);
    const box = await plotBox(element);
    const { delay } = summary;
    // A delay of zero has no position on a logarithmic axis.
    const curve = summary.curve.filter((p) => p.delay_ns > 0 || x.kind !== "log");
    for (const share of [0, 0.25, 0.5, 0.75, 0.9, 1]) {
      const wanted = curve[Math.round(share * (curve.length - 1))];
      const at = Math.min(Math.max(x.at(wanted.delay_ns), box.left), box.right);
      const tip = await point(page, element, at, box.bottom - 20);
      const near = curve.filter((p) => Math.abs(x.at(p.delay_ns) - at) < 0.6);
      assert.ok(
        near.some((p) => p.delay_ns === Number(tip.x) && p.cumulative / delay.count === Number(tip.y)),
        `expected about ${wanted.delay_ns} ns, the tooltip says ${tip.x}: ${tip.y}`,
      );
    }
  }));

test("arrow keys walk through the points", () =>
  visit(directory, {}, async (page) => {
    const element = figure(page, "percentiles");
    const svg = element.locator("svg");
    await svg.focus();
    const tip = element.locator(".tip");
    const values = [];
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End"]) {
      await page.keyboard.press(key);
      values.push(Number((await read(tip)).x));
    }
    const { rows } = await download(page, element);
    const xs = rows.map((row) => Number(row.x)).filter((p) => p < 100);
    assert.deepEqual(values, [xs[0], xs[1], xs[2], xs[1], xs.at(-1)]);
    await svg.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Escape");
    assert.equal(await tip.isVisible(), false);
  }));

test("the CSV links match summary.json and the files on disk", () =>
  visit(directory, {}, async (page) => {
    const all = {};
    for (const element of await figures(page)) {
      const id = await nameOf(element);
      const got = await download(page, element);
      assert.equal(got.file, `${id}.csv`);
      assert.equal(got.header[0], "series");
      assert.ok(got.rows.length > 0, `${id}: no rows`);
      const file = join(directory, "figures", `${id}.csv`);
      assert.ok(existsSync(file), `${file} is missing`);
      assert.equal(got.text, readFileSync(file, "utf8"), `${id}: the link and the file differ`);
      all[id] = got.rows;
    }
    const percentiles = new Map(all.percentiles.map((row) => [Number(row.x), row]));
    const largest = Math.max(...percentiles.keys());
    for (const p of summary.delay.percentiles.filter((p) => p.percentile <= largest)) {
      const row = percentiles.get(p.percentile);
      assert.ok(row, `p${p.percentile} is missing`);
      assert.deepEqual([Number(row.y), Number(row.fields[3]), row.fields[5]], [p.value_ns, p.low_ns, String(p.supported)]);
    }
    const sorted = (values) => values.map((v) => v.join(" ")).sort();
    assert.deepEqual(
      sorted(all.worst.map((row) => [Number(row.x), Number(row.y)])),
      sorted(summary.worst.map((w) => [seconds(w.post_ns, summary.post.first_ns), w.delay_ns])),
    );
    assert.deepEqual(
      all.cdf.map((row) => [Number(row.x), Number(row.y)]),
      summary.curve.map((p) => [p.delay_ns, p.cumulative / summary.delay.count]),
    );
  }));

test("verdicts and key numbers match summary.json", () =>
  visit(directory, {}, async (page) => {
    const cards = page.locator(".card");
    assert.equal(await cards.count(), summary.verdicts.length);
    for (const [index, verdict] of summary.verdicts.entries()) {
      const text = await cards.nth(index).innerText();
      assert.ok(text.includes(verdict.outcome), text);
      assert.ok(text.includes(verdict.reason), text);
    }
    const p999 = summary.delay.percentiles.find((p) => p.percentile === 99.9);
    const tile = page.locator(".tile", { hasText: "p99.9 delay" });
    const exact = await tile.locator(".value").getAttribute("title");
    assert.equal(Number(exact.replace(/[^\d]/g, "")), p999.value_ns);
    assert.ok((await page.locator("#matching").innerText()).includes("duplicates at ingress"));
  }));

test("figures are visible without scripts", () =>
  visit(directory, { javaScriptEnabled: false }, async (page) => {
    await everySeriesIsSeen(page);
    assert.equal(await page.locator("a.csv").first().isVisible(), false, "a link that can't work is shown");
  }));

test("figures are printed on white", () =>
  visit(directory, { colorScheme: "dark" }, async (page) => {
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.notEqual(await paper(), "rgb(255, 255, 255)");
    await everySeriesIsSeen(page);
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    assert.equal(await paper(), "rgb(255, 255, 255)");
    await everySeriesIsSeen(page);
    assert.equal(await page.locator("a.csv").first().isVisible(), false);
    const pdf = await page.pdf({ format: "A4" });
    assert.ok(pdf.length > 20_000, `a PDF of ${pdf.length} bytes`);
  }));

test("a narrow screen does not scroll sideways", () =>
  visit(directory, { viewport: { width: 380, height: 800 } }, async (page) => {
    const [needed, given] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(needed <= given, `the page is ${needed} wide on a screen of ${given}`);
  }));

for (const name of ["report", "run", "switched", "comparison", "explanation"])
  test(`tables of ${name}.html fit their column`, { skip: samples ? false : "WIRETAIL_SAMPLE_DIR is not set" }, async () => {
    for (const width of [1280, 390]) {
      const page = await browser.newPage({ viewport: { width, height: 900 } });
      await page.goto(pathToFileURL(resolve(samples, `${name}.html`)).href);
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      const wide = await page.evaluate((desktop) => {
        const frames = desktop ? [...document.querySelectorAll(".scroll")] : [document.documentElement];
        return frames
          .filter((frame) => frame.scrollWidth > frame.clientWidth + 1)
          .map((frame) => `${frame.querySelector("caption")?.textContent}: ${frame.scrollWidth} > ${frame.clientWidth}`);
      }, width > 1000);
      await page.close();
      assert.deepEqual(wide, [], `at ${width} pixels`);
    }
  });

test("labels of an axis do not overlap", () =>
  visit(directory, {}, async (page) => {
    for (const element of await figures(page)) {
      for (const [name, side] of [["x", "left"], ["y", "top"]]) {
        const boxes = await element.locator(`.tick.${name} .label:first-of-type`).evaluateAll((all) =>
          all.map((label) => label.getBoundingClientRect()).map(({ left, right, top, bottom }) => ({ left, right, top, bottom })),
        );
        assert.ok(boxes.length >= 2, `${await nameOf(element)}: ${boxes.length} labels on ${name}`);
        boxes.sort((a, b) => a[side] - b[side]);
        const end = side === "left" ? "right" : "bottom";
        // Line boxes of a vertical axis are higher than their digits.
        const slack = side === "left" ? 0 : 5;
        for (let i = 1; i < boxes.length; i++) {
          assert.ok(boxes[i][side] >= boxes[i - 1][end] - slack, `${await nameOf(element)}, ${name}: labels ${i - 1} and ${i} overlap`);
        }
      }
    }
  }));

test("the page is accessible to screen readers", () =>
  visit(directory, {}, async (page) => {
    const faults = await page.evaluate(() => {
      const found = [];
      for (const svg of document.querySelectorAll("svg.plot")) {
        const words = svg.getAttribute("aria-labelledby").split(" ").map((id) => document.getElementById(id)?.textContent);
        if (svg.getAttribute("role") !== "img" || svg.tabIndex !== 0 || words.some((w) => !w)) found.push(svg.outerHTML.slice(0, 80));
      }
      for (const table of document.querySelectorAll("table")) {
        if (!table.caption?.textContent) found.push("a table without a caption");
        if ([...table.querySelectorAll("th")].some((th) => !th.scope)) found.push(`${table.caption.textContent}: th without scope`);
        const columns = table.tHead.rows[0].cells.length;
        if ([...table.tBodies[0].rows].some((row) => row.cells.length !== columns)) found.push(`${table.caption.textContent}: ragged`);
      }
      const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
      if (new Set(ids).size !== ids.length) found.push("an id is used twice");
      return found;
    });
    assert.deepEqual(faults, []);
  }));

test("names with HTML are shown as text", { skip: hostile ? false : "WIRETAIL_HOSTILE_REPORT_DIR is not set" }, () =>
  visit(hostile, {}, async (page) => {
    const names = readSummary(hostile);
    assert.match(names.pre.path + names.post.path, /<[a-z]/, "the hostile report has no hostile name");
    const foreign = await page.evaluate(() => {
      const known = "html head meta link title style body header p h1 span main section h2 div article strong ul li code dl dt dd figure h3 a svg desc g path rect text circle figcaption script table caption thead tr th tbody td small details summary footer b";
      const names = [...document.querySelectorAll("*")].map((element) => element.localName);
      const handlers = [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on")));
      const scripts = [...document.scripts].filter((script) => script.type !== "application/json");
      return { unknown: names.filter((name) => !known.split(" ").includes(name)), handlers: handlers.length, scripts: scripts.length };
    });
    assert.deepEqual(foreign, { unknown: [], handlers: 0, scripts: 1 });
    const captures = await page.locator("#captures").innerText();
    for (const path of [names.pre.path, names.post.path]) {
      assert.ok(captures.includes(path), `${path} is missing in ${captures}`);
    }
    assert.equal(await page.locator("h1").innerText(), names.title);
    // Flow names and the tooltip are created differently and must be safe, too.
    for (const flow of names.flows.largest) assert.ok((await page.locator("#flows").innerText()).includes(flow.name), flow.name);
    for (const element of await figures(page)) {
      const box = await plotBox(element);
      await point(page, element, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
    }
    assert.equal(await page.locator("img, iframe, object, embed").count(), 0);
  }));
