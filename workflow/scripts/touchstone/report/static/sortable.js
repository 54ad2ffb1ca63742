// A click on a column's heading sorts a table: first the largest, then the smallest number, then the
// planned order. The field above a long table filters its rows. Rows beyond what a table shows are in
// its template. On a phone each row is a card, whose labels are set here.
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
for (const table of document.querySelectorAll("table.sortable")) {
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
  heads.forEach((head, column) => {
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
  });
  if (room + waiting.length < 8) continue;
  const label = document.createElement("label"), field = document.createElement("input");
  const found = document.createElement("output");
  label.className = "filter";
  field.type = "search";
  label.append("Filter by words ", field, " ", found);
  field.addEventListener("input", () => {
    words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const count = show();
    found.textContent = words.length ? `${count} of ${all().length} rows` : "";
  });
  (table.closest(".scroll") ?? table).before(label);
}
for (const table of document.querySelectorAll("table:not(.sortable)")) cards(table);
