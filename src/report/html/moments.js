// What an estimate adds to the page: memory at every moment that can be the peak.

function moments() {
  const { moments: all, peak_at, device } = summary.memory;
  const most = Math.max(device, ...all.map((m) => m.bytes));
  for (const { moment, bytes: sum, categories } of all) {
    const parts = data.categories.filter((word) => categories[word] > 0);
    const bar = el("div", { class: "stack", title: parts.map((word) => `${word} ${bytes(categories[word])}`).join("\n") });
    for (const word of parts) bar.append(el("div", { style: `width:${(categories[word] / most) * 100}%;background:${colorOf(word)}` }));
    bar.append(el("i", { class: "limit", style: `left:${(device / most) * 100}%` }));
    $("moments").append(el("tr", { class: moment === peak_at ? "peak" : "" }, el("td", {}, moment === peak_at ? `▸ ${moment}` : moment),
      el("td", { class: "n", "data-moment": moment, "data-value": sum }, bytes(sum)), el("td", { class: "bar" }, bar)));
  }
  const shown = data.categories.filter((word) => all.some((m) => m.categories[word] > 0));
  $("legend").append(...shown.map((word) => el("li", {}, key(colorOf(word)), word)), el("li", {}, key("var(--warn)"), `device ${bytes(device)}`));
  const { remedy } = summary.memory;
  if (remedy) $("remedy").textContent = `${remedy.change.replaceAll("`", "")} needs ${bytes(remedy.peak)}, ${(remedy.step / remedy.before).toFixed(2)} times the step`;
}

moments();
document.documentElement.dataset.ready = "1";
