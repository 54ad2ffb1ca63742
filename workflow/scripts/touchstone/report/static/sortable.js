// A click on a column's heading sorts a table: first the largest, then the smallest number, then the
// planned order. The field above a long table filters its rows, the list next to it hides columns.
// Rows beyond what a table shows are in its template. On a phone each row is a card, whose labels are
// set here. One button shows all speeds relative to the highest. The part of the page's address after
// `?` in its fragment keeps all of this, so that a copied address shows the same view.
// A table in a closed fold waits until the fold opens, or a print begins: most of a page is never
// opened.
const [, view] = location.hash.split("?");
const state = new URLSearchParams(view);
const anchor = () => location.hash.split("?")[0];
const keep = (name, value) => {
  if (name && value) state.set(name, value);
  else state.delete(name);
  const text = state.size ? `${anchor() || "#"}?${state}` : anchor() || "#";
  // A page within another one has no address.
  if (location.protocol !== "about:" && text !== (location.hash || "#")) {
    history.replaceState(null, "", text);
  }
};
const compare = new Intl.Collator("en", {numeric: true}).compare;
const cards = (table) => {
  const labels = [...table.tHead.rows[0].cells].map((head) =>
    [...(head.querySelector("button") ?? head).childNodes]
      .map((part) => part.textContent.trim()).filter(Boolean).join(", "));
  for (const row of table.tBodies[0].rows) {
    if (row.cells.length !== labels.length) return;
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, column) => {
      cell.dataset.label = labels[column];
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      if (column && !cell.querySelector(":scope > .value")) {
        const value = document.createElement("div");
        value.className = "value";
        value.append(...cell.childNodes);
        cell.append(value);
      }
    });
  }
  table.setAttribute("role", "table");
  table.classList.add("cards");
  table.closest(".scroll")?.classList.add("cards-box");
};
const waitingRows = [...document.querySelectorAll("template")].map((one) => one.content);
const speeds = [document, ...waitingRows]
  .flatMap((place) => [...place.querySelectorAll("[data-relative]")]);
if (speeds.length) {
  const button = document.createElement("button");
  button.className = "switch";
  button.textContent = "Speeds relative to the highest";
  button.setAttribute("aria-pressed", false);
  const set = (relative) => {
    button.setAttribute("aria-pressed", relative);
    for (const one of speeds) {
      one.dataset.absolute ??= one.textContent;
      one.textContent = relative ? one.dataset.relative : one.dataset.absolute;
    }
    document.documentElement.classList.toggle("relative", relative);
    keep("speeds", relative ? "relative" : "");
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-pressed") !== "true"));
  if (state.get("speeds") === "relative") set(true);
  document.querySelector(".scroll:has([data-relative])")?.before(button);
}
// The list of a table's columns; a column without its mark is hidden. The first one stays.
const chooser = (name, table, heads) => {
  const box = document.createElement("details"), title = document.createElement("summary");
  const rules = document.createElement("style");
  const hidden = new Set((state.get(`${name}.hide`) ?? "").split(" ").filter((one) => one > 1));
  const hide = () => {
    rules.textContent = [...hidden]
      .map((one) => `[data-table="${name}"] tr > :nth-child(${Number(one)}) { display: none }`)
      .join("\n");
    keep(`${name}.hide`, [...hidden].join(" "));
  };
  table.dataset.table = name;
  box.className = "columns";
  title.textContent = "Columns";
  box.append(title, rules);
  heads.forEach((head, column) => {
    if (!column) return;
    const label = document.createElement("label"), mark = document.createElement("input");
    const place = String(column + 1);
    mark.type = "checkbox";
    mark.checked = !hidden.has(place);
    mark.addEventListener("change", () => {
      if (mark.checked) hidden.delete(place);
      else hidden.add(place);
      hide();
    });
    label.append(mark, " ", (head.querySelector("button") ?? head).firstChild.textContent);
    box.append(label);
  });
  hide();
  return box;
};
const sortable = (table) => {
  const body = table.tBodies[0], room = body.rows.length;
  const waiting = table.querySelector("template")?.content.children ?? [];
  let planned = null, rows = null, words = [];
  const all = () => {
    planned ??= [...body.rows, ...waiting];
    return rows ??= planned;
  };
  const show = () => {
    const kept = all().filter((row) => {
      const text = row.textContent.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    body.replaceChildren(...kept.slice(0, room));
    cards(table);
    return kept.length;
  };
  const keyOf = (row, column) => {
    const cell = row.cells[column], place = cell.querySelector(":scope > .value") ?? cell;
    const first = place.firstChild;
    const shown = first?.nodeType === 3 ? first.data : place.textContent;
    const text = (cell.dataset.key ?? shown).trim();
    if (!text || text === "–" || first?.className?.includes?.("word")) return null;
    const number = Number(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  const heads = [...table.tHead.rows[0].cells];
  cards(table);
  const region = table.closest("[role=region]")?.getAttribute("aria-label") ?? "";
  const name = region.replace(/^Table: /, "").toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const buttons = heads.map((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      all();
      const keyed = planned.map((row) => [keyOf(row, column), row]);
      const known = keyed.filter(([key]) => key !== null);
      const first = known.some(([key]) => typeof key === "number") ? "descending" : "ascending";
      const second = first === "descending" ? "ascending" : "descending";
      const order = head.ariaSort === first ? second : head.ariaSort === second ? null : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      table.classList.toggle("sorted", order !== null);
      keep(`${name}.sort`, order && `${column + 1}-${order}`);
      if (order === null) {
        rows = planned;
      } else {
        head.setAttribute("aria-sort", order);
        const turn = order === "ascending" ? 1 : -1;
        known.sort(([a], [b]) => turn * (typeof a === "number" && typeof b === "number" ? a - b
          : typeof a === typeof b ? compare(a, b) : typeof a === "number" ? -1 : 1));
        rows = [...known, ...keyed.filter(([key]) => key === null)].map(([, row]) => row);
      }
      show();
    });
    return button;
  });
  const [sorted, order] = (state.get(`${name}.sort`) ?? "").split("-");
  const button = buttons[sorted - 1], head = heads[sorted - 1];
  for (let click = 0; click < 2 && head && head.ariaSort !== order; click += 1) button.click();
  if (heads.length > 6) table.closest(".scroll")?.before(chooser(name, table, heads));
  if (room + waiting.length < 8) return;
  const label = document.createElement("label"), field = document.createElement("input");
  const found = document.createElement("output");
  label.className = "filter";
  field.type = "search";
  label.append("Filter by words ", field, " ", found);
  const filter = () => {
    words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const count = show();
    found.textContent = words.length ? `${count} of ${all().length} rows` : "";
    keep(`${name}.words`, words.join(" "));
  };
  field.addEventListener("input", filter);
  field.value = state.get(`${name}.words`) ?? "";
  if (field.value) filter();
  (table.closest(".scroll") ?? table).before(label);
};
const unprepared = new Set(document.querySelectorAll("table"));
const prepare = (isPrint) => {
  for (const table of unprepared) {
    if (!isPrint && table.closest(".fold:not([open])")) continue;
    unprepared.delete(table);
    if (table.classList.contains("sortable")) sortable(table);
    else cards(table);
  }
};
prepare(false);
document.addEventListener("toggle", () => prepare(false), true);
addEventListener("beforeprint", () => prepare(true));
// A link into a fold opens it.
const reveal = () => {
  const target = document.getElementById(anchor().slice(1));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  prepare(false);  // before the place of the target is known
  target?.scrollIntoView();
};
addEventListener("hashchange", () => { keep(); reveal(); });
if (anchor().length > 1) reveal();
