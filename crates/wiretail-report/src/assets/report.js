// Hover and CSV downloads. The page is complete without this script: the figures are already drawn.
"use strict";
(() => {
  const THIN = "\u202f"; // thousands separator
  const SPACE = "\u00a0"; // between number and unit
  const SVG = "http://www.w3.org/2000/svg";

  // Position of a value on a scale, computed as in scale.rs.
  const place = {
    linear: (v) => v,
    log: (v) => (v > 0 ? Math.log10(v) : NaN),
    nines: (p) => (p >= 0 && p < 100 ? -Math.log10((100 - p) / 100) : NaN),
  };
  const at = (axis, value) =>
    axis.start + ((place[axis.scale](value) - axis.from) / (axis.to - axis.from)) * (axis.end - axis.start);

  // Adds thousands separators to the digits from the CSV, without rounding.
  const grouped = (digits) => {
    const [whole, fraction] = digits.replace("-", "\u2212").split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, THIN) + (fraction === undefined ? "" : "." + fraction);
  };
  const significant = (value, count) => {
    const magnitude = Number(value.toExponential(count - 1).split("e")[1]);
    const decimals = Math.max(0, Math.min(12, count - 1 - magnitude));
    return grouped(value.toFixed(decimals));
  };
  const duration = (ns) => {
    const size = Math.abs(ns);
    for (const [unit, length] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
      if (size >= 0.99995 * length) return significant(ns / length, 4) + SPACE + unit;
    }
    return grouped(String(ns)) + SPACE + "ns";
  };
  const rate = (pps) =>
    pps >= 1e6 ? significant(pps / 1e6, 4) + SPACE + "Mpps"
    : pps >= 1e3 ? significant(pps / 1e3, 4) + SPACE + "kpps"
    : grouped(String(pps)) + SPACE + "pps";

  // A value for display, followed by the exact value if they differ.
  const shown = (unit, digits) => {
    const value = Number(digits);
    switch (unit) {
      case "nanoseconds": return [duration(value), grouped(digits) + SPACE + "ns"];
      case "seconds": return [duration(value * 1e9), grouped(digits) + SPACE + "s"];
      case "packets-per-second": return [rate(value), grouped(digits) + SPACE + "pps"];
      case "ratio": return [value === 0 ? "0" + SPACE + "%" : significant(value * 100, 4) + SPACE + "%", grouped(digits)];
      case "percentile": return [grouped(digits) + SPACE + "%", grouped(digits) + SPACE + "%"];
      default: return [grouped(digits), grouped(digits)];
    }
  };
  const withExact = (unit, digits) => {
    const [text, exact] = shown(unit, digits);
    return text === exact ? text : `${text} (${exact})`;
  };

  const points = (data) => {
    const all = [];
    data.series.forEach((series, number) => {
      for (const row of series.rows.split("\n")) {
        if (!row) continue;
        const fields = row.split(",");
        const [x, y] = fields;
        const point = { number, series: series.name, x, y, width: series.width };
        if (fields.length >= 4) [point.low, point.high] = [fields[2], fields[3]];
        point.weak = fields[fields.length - 1] === "false";
        const left = at(data.x, Number(x));
        point.px = left;
        if (series.width) {
          const axis = data.x;
          const edge = Number.isNaN(left) ? axis.start : left;
          point.px = (edge + at(axis, Number(x) + series.width)) / 2;
        }
        // Zero packets on a logarithmic axis are drawn on the axis itself.
        point.py = Number(y) === 0 && data.y.unit === "packets" && data.y.scale === "log" ? data.y.start : at(data.y, Number(y));
        if (Number.isFinite(point.px) && Number.isFinite(point.py)) all.push(point);
      }
    });
    return all;
  };

  const csv = (data) => {
    const lines = [data.header];
    for (const series of data.series) {
      for (const row of series.rows.split("\n")) if (row) lines.push(series.field + "," + row);
    }
    return lines.join("\n") + "\n";
  };

  // Lines, steps and bars are searched along x, scatter plots by distance.
  const nearest = (data, all, x, y) => {
    let best = null;
    let least = Infinity;
    for (const point of all) {
      const dx = point.px - x;
      const dy = point.py - y;
      const distance = data.mark === "point" ? dx * dx + dy * dy : Math.abs(dx) + Math.abs(dy) * 1e-4;
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  };

  const setUp = (figure) => {
    const data = JSON.parse(figure.querySelector(".figure-data").textContent);
    const svg = figure.querySelector("svg");
    const frame = figure.querySelector(".frame");
    let all = null;
    let current = null;

    const link = figure.querySelector("a.csv");
    link.href = "#";
    link.addEventListener("click", () => {
      if (link.href.startsWith("blob:")) return;
      link.href = URL.createObjectURL(new Blob([csv(data)], { type: "text/csv;charset=utf-8" }));
    });

    const tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    frame.append(tip);
    const pin = document.createElementNS(SVG, "g");
    pin.setAttribute("class", "pin");
    const cross = document.createElementNS(SVG, "path");
    const ring = document.createElementNS(SVG, "circle");
    ring.setAttribute("r", "4.5");
    pin.append(cross, ring);

    const line = (label, text, kind) => {
      const p = document.createElement("p");
      if (kind) p.className = kind;
      const b = document.createElement("b");
      b.textContent = label;
      p.append(b, " " + text);
      tip.append(p);
    };

    const describe = (point) => {
      tip.replaceChildren();
      const several = data.series.length > 1;
      if (several) line(point.series, "", "who s" + (point.number % 6));
      if (point.width) {
        const end = String(Number((Number(point.x) + point.width).toPrecision(15)));
        const upTo = `${shown(data.x.unit, point.x)[0]} to ${shown(data.x.unit, end)[0]}`;
        line(data.x.label, `${upTo} (${shown(data.x.unit, point.x)[1]})`);
      } else {
        line(data.x.label, withExact(data.x.unit, point.x));
      }
      line(data.y.label, withExact(data.y.unit, point.y));
      if (point.low) {
        const high = point.high ? withExact(data.y.unit, point.high) : "open: may lie beyond the largest value seen";
        line("95" + SPACE + "% CI", `${withExact(data.y.unit, point.low)} to ${high}`);
      }
      if (point.weak) line("not supported", "n(1\u2212p) < 10", "weak");
      for (const [name, value] of [["x", point.x], ["y", point.y], ["series", point.series], ["low", point.low], ["high", point.high]]) {
        if (value === undefined) delete tip.dataset[name];
        else tip.dataset[name] = value;
      }
    };

    const show = (point) => {
      if (!point) return;
      if (point !== current) describe(point);
      current = point;
      cross.setAttribute("d", `M${point.px} ${data.y.start}V${data.y.end}M${data.x.start} ${point.py}H${data.x.end}`);
      ring.setAttribute("cx", point.px);
      ring.setAttribute("cy", point.py);
      if (!pin.isConnected) svg.append(pin);
      tip.hidden = false;
      // Place the tooltip next to the point, on the side with enough room.
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const [x, y] = [point.px * scale, point.py * scale];
      const { offsetWidth: width, offsetHeight: height } = tip;
      const visible = frame.scrollLeft + frame.clientWidth;
      const left = x + 14 + width > visible ? x - 14 - width : x + 14;
      tip.style.left = Math.max(frame.scrollLeft, left) + "px";
      tip.style.top = Math.max(0, y - height - 10) + "px";
    };
    const hide = () => {
      tip.hidden = true;
      pin.remove();
      current = null;
    };
    const load = () => (all ??= points(data));

    const follow = (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      show(nearest(data, load(), point.x, point.y));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);

    svg.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") return hide();
      const number = current ? current.number : 0;
      if (event.key === "ArrowUp" || event.key === "ArrowDown") {
        const count = data.series.length;
        if (count < 2) return;
        const other = (number + (event.key === "ArrowUp" ? count - 1 : 1)) % count;
        const candidates = load().filter((point) => point.number === other);
        const from = current ?? candidates[0];
        event.preventDefault();
        return show(from && nearest({ mark: "line" }, candidates, from.px, from.py));
      }
      if (!(event.key in steps)) return;
      event.preventDefault();
      const own = load().filter((point) => point.number === number).sort((a, b) => a.px - b.px);
      const start = current ? own.indexOf(current) + steps[event.key] : event.key === "End" ? own.length - 1 : 0;
      show(own[Math.max(0, Math.min(own.length - 1, start))]);
    });
  };

  // Tooltips of stacked bars and timelines. The page text contains the same data for keyboards and screen readers.
  const plain = (drawing) => {
    const tip = document.createElement("div");
    tip.className = "tip plain";
    tip.hidden = true;
    const follow = (event) => {
      const part = event.target.closest("[data-tip]");
      tip.hidden = !part;
      if (!part) return;
      tip.textContent = part.dataset.tip;
      if (!tip.isConnected) document.body.append(tip);
      const { offsetWidth: width, offsetHeight: height } = tip;
      const left = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
      tip.style.left = Math.max(0, left) + "px";
      tip.style.top = Math.max(0, event.clientY - height - 12) + "px";
    };
    drawing.addEventListener("pointermove", follow);
    drawing.addEventListener("pointerdown", follow);
    drawing.addEventListener("pointerleave", () => (tip.hidden = true));
  };

  // Open all folded parts before printing.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));

  // Offers the document that the page was made from as a download.
  const whole = (link) => {
    const text = document.querySelector("script." + link.dataset.document).textContent;
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  };

  document.querySelectorAll("a[data-document]").forEach(whole);
  document.querySelectorAll("figure[data-figure]").forEach(setUp);
  document.querySelectorAll(".tips").forEach(plain);
})();
