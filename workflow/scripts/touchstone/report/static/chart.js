// The chart next to the answer. Its rows have every number and sentence for each metric and baseline;
// this draws those that were chosen, as strip.html.j2 draws the first, and keeps the choice in the
// address.
const chartData = document.querySelector("#strips");
if (chartData) {
  const strips = JSON.parse(chartData.textContent);
  const boxes = [...document.querySelectorAll(".strip")];
  const svgSpace = document.querySelector(".strip svg").namespaceURI;
  const isOne = boxes.length === 1;
  const element = (tag, css, ...content) => {
    const made = document.createElement(tag);
    if (css) made.className = css;
    made.append(...content);
    return made;
  };
  const drawn = (tag, values, ...content) => {
    const made = document.createElementNS(svgSpace, tag);
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    made.append(...content);
    return made;
  };
  const line = (css, x1, x2, y1, y2) => drawn("line", {class: css, x1, x2, y1, y2});
  const stripOf = (place) =>
    (isOne && strips.find((one) => one.heading === state.get("at"))) || strips[place];
  const chartOf = (strip) =>
    strip.charts.find((one) => one.label === state.get("show")) ?? strip.charts[0];
  const baselineOf = ({rows}) => rows.find((one) => one.name === state.get("to")) ?? rows[0];
  const rowOf = (row, baseline) => {
    const [text, low, high, cut] = row.against[baseline.name] ?? ["–"];
    const track = drawn("svg", {class: "track", "aria-hidden": "true", width: "100%", height: 26},
      line("base", 0, "100%", 13, 13), line("lead", baseline.middle, baseline.middle, 0, 26));
    if (low) track.append(line("interval", low, high, 13, 13), line("interval", low, low, 8, 18));
    if (low && !cut) track.append(line("interval", high, high, 8, 18));
    for (const cx of row.dots) track.append(drawn("circle", {cx, cy: 13, r: 4.5, fill: row.colour}));
    const name = element("button", "name", row.name);
    name.setAttribute("aria-pressed", row === baseline);
    name.title = "Compare with this configuration";
    name.addEventListener("click", () => {
      choose("to", row.name);
      document.querySelector('.strip [aria-pressed="true"]').focus();
    });
    return element("li", "", name, track, element("span", "value", row.value),
      element("span", "against", text), element("span", "details", row.values));
  };
  const draw = () => boxes.forEach((box, place) => {
    const strip = stripOf(place), chart = chartOf(strip), baseline = baselineOf(chart);
    const axis = box.querySelector(".axis");
    box.querySelector("h3").textContent = strip.heading;
    box.querySelector("ul").replaceChildren(...chart.rows.map((row) => rowOf(row, baseline)));
    axis.querySelector("svg").replaceChildren(...chart.ticks.flatMap(([x, text], number) => [
      line("base", x, x, 0, 4),
      drawn("text", {x, y: 16, "text-anchor": number ? "middle" : "start"}, text),
    ]));
    axis.querySelector(".value").textContent = chart.unit;
    box.querySelector(".how").textContent = chart.note;
    box.querySelector(".left").hidden = !strip.left_out;
    box.querySelector(".left span").textContent = strip.left_out;
  });
  const fills = [];
  const choose = (name, value) => {
    keep(name, value);
    draw();
    for (const fill of fills) fill();
  };
  const controls = element("div", "controls");
  const menu = (name, title, entries, chosen) => {
    const select = element("select");
    const fill = () => {
      select.replaceChildren(...[...new Set(entries())].map((text) => new Option(text)));
      select.value = chosen();
    };
    select.addEventListener("change", () => choose(name, select.value));
    fills.push(fill);
    fill();
    controls.append(element("label", "", `${title} `, select));
  };
  const all = (part) => boxes.flatMap((box, place) => part(stripOf(place)));
  menu("show", "Show", () => all(({charts}) => charts.map((one) => one.label)),
    () => chartOf(stripOf(0)).label);
  menu("to", "relative to", () => all((strip) => chartOf(strip).rows.map((one) => one.name)),
    () => baselineOf(chartOf(stripOf(0))).name);
  if (isOne && strips.length > 1) {
    menu("at", "of", () => strips.map((one) => one.heading), () => stripOf(0).heading);
  }
  const markdown = () => boxes.map((box, place) => {
    const strip = stripOf(place), chart = chartOf(strip), baseline = baselineOf(chart);
    const unit = chart.unit && `, ${chart.unit}`;
    return [strip.heading, "", `| configuration | ${chart.label.toLowerCase()}${unit} | relative to ${baseline.name} |`,
      "| --- | ---: | ---: |",
      ...chart.rows.map((row) =>
        `| ${row.name} | ${row.value} | ${row.against[baseline.name]?.[0] ?? "–"} |`),
    ].join("\n");
  }).join("\n\n");
  const copy = element("button", "copy", "Copy as Markdown"), copied = element("output");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(markdown());
      copied.replaceChildren("Copied.");
    } catch {
      // Not every browser lets a page from a disk copy: then the text is there to be copied.
      const text = element("textarea", "", markdown());
      text.readOnly = true;
      text.rows = 5;
      text.setAttribute("aria-label", "The chart as Markdown");
      copied.replaceChildren(text);
      text.select();
    }
  });
  controls.append(copy, copied);
  boxes[0]?.before(controls);
  draw();
}
