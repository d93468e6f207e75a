"use strict";
// Samples: search, filter, and a few at a time. Without this script all of them stand in the page.
(() => {
  const list = document.getElementById("sample-list");
  if (!list) return;
  const step = Number(list.dataset.shown);
  const items = [...list.children].map((node) => ({ node, text: node.textContent.toLowerCase(), gain: Number(node.dataset.gain) }));
  const [search, filter, order] = ["search", "filter", "order"].map((id) => document.getElementById(id));
  const sign = { up: 1, same: 0, down: -1 };
  const count = document.getElementById("count"), more = document.getElementById("show-more");
  let limit = step;
  const update = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { node, text, gain } of items) {
      const fits = (!filter.value || Math.sign(gain) === sign[filter.value]) && words.every((word) => text.includes(word));
      found += fits;
      node.hidden = !fits || found > limit;
    }
    count.textContent = `${Math.min(found, limit)} of ${found}`;
    more.hidden = found <= limit;
  };
  const restart = () => { limit = step; update(); };
  search.addEventListener("input", restart);
  filter.addEventListener("change", restart);
  const drawn = [...items];
  order.addEventListener("change", () => {
    items.splice(0, items.length, ...drawn);
    if (order.value) items.sort((a, b) => order.value === "gain" ? b.gain - a.gain : a.gain - b.gain);
    list.append(...items.map(({ node }) => node));
    restart();
  });
  more.addEventListener("click", () => { limit += step; update(); });
  update();
})();
// Charts: the values under the pointer.
(() => {
  const tip = document.getElementById("tip");
  const digits = (value) => String(Number(value.toPrecision(4)));
  for (const svg of document.querySelectorAll("svg[data-series]")) {
    const series = JSON.parse(svg.dataset.series);
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    const leave = () => { tip.hidden = true; cursor.remove(); };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const view = svg.viewBox.baseVal;
      const x = (event.clientX - box.left) / box.width * view.width;
      const near = series.map((one) => one.points.reduce((a, b) => Math.abs(b[2] - x) < Math.abs(a[2] - x) ? b : a));
      const closest = near.reduce((a, b) => Math.abs(b[2] - x) < Math.abs(a[2] - x) ? b : a);
      const lines = series.flatMap((one, i) => near[i][0] === closest[0] ? [`${one.name} ${digits(near[i][1])}`] : []);
      tip.textContent = [`${svg.dataset.x} ${digits(closest[0])}`, ...lines].join("\n");
      for (const [name, value] of Object.entries({ x1: closest[2], x2: closest[2], y1: 10, y2: view.height - 30 })) cursor.setAttribute(name, value);
      svg.append(cursor);
      tip.hidden = false;
      const left = box.left + closest[2] / view.width * box.width;
      tip.style.left = `${Math.max(4, Math.min(left + 10, innerWidth - tip.offsetWidth - 8)) + scrollX}px`;
      tip.style.top = `${box.top + scrollY + 6}px`;
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointercancel", leave);
  }
})();
