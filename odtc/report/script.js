"use strict";
const valueOf = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
};
const compare = (a, b) => {
  const [first, second] = [a, b].map((each) => typeof each === "number");
  if (first !== second) return first ? -1 : 1;
  return first ? a - b : a.localeCompare(b);
};
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const column = head.cellIndex;
    const sorted = [...body.rows].sort(
      (a, b) => sign * compare(valueOf(a, column), valueOf(b, column)));
    body.append(...sorted);
  });
}
const save = (text, type, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
for (const button of document.querySelectorAll("button[data-csv]")) {
  button.addEventListener("click", () => {
    const table = document.getElementById(button.dataset.csv);
    const lines = [...table.rows].map((row) => [...row.cells].map((cell) => quoted(
      cell.dataset.v === undefined ? cell.textContent.trim() : cell.dataset.v)).join(","));
    save(lines.join("\r\n") + "\r\n", "text/csv", `${button.dataset.csv}.csv`);
  });
}
for (const button of document.querySelectorAll("button[data-json]")) {
  button.addEventListener("click", () => save(
    document.getElementById("data").textContent, "application/json", "results.json"));
}
