// A click on a column's head sorts a table, the words above a longer one filter its rows. What the
// page has no room for waits in a table's template.
const compare = new Intl.Collator("en", {numeric: true}).compare;
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], room = body.rows.length;
  const waiting = table.querySelector("template")?.content.children ?? [];
  let rows = null, words = [];
  const all = () => rows ??= [...body.rows, ...waiting];
  const show = () => {
    const kept = all().filter((row) => {
      const text = row.textContent.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    body.replaceChildren(...kept.slice(0, room));
    return kept.length;
  };
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.ariaSort === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      table.classList.add("sorted");
      const known = [], empty = [];
      for (const row of all()) {
        const cell = row.cells[column], first = cell.firstChild;
        const shown = first?.nodeType === 3 ? first.data : cell.textContent;
        const text = (cell.dataset.key ?? shown).trim();
        const key = Number(text.replaceAll(",", ""));
        if (!text || text === "–" || first?.className?.includes?.("word")) empty.push(row);
        else known.push([Number.isNaN(key) ? text : key, row]);
      }
      const turn = order === "ascending" ? 1 : -1;
      known.sort(([a], [b]) => turn * (typeof a === "number" && typeof b === "number" ? a - b
        : typeof a === typeof b ? compare(a, b) : typeof a === "number" ? -1 : 1));
      rows = [...known.map(([, row]) => row), ...empty];
      show();
    });
  });
  if (room + waiting.length < 8) continue;
  const label = document.createElement("label"), field = document.createElement("input");
  const told = document.createElement("output");
  label.className = "filter";
  field.type = "search";
  label.append("Filter by words ", field, " ", told);
  field.addEventListener("input", () => {
    words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const count = show();
    told.textContent = words.length ? `${count} of ${all().length} rows` : "";
  });
  (table.closest(".scroll") ?? table).before(label);
}
