// Runs before the first paint, so that a chosen theme never flashes. A classic script: modules wait for the page.
(() => {
  const names = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("pintgn.theme"); } catch { return null; } };
  let chosen = names.includes(read()) ? read() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = chosen;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${chosen}`;
  };
  apply();
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = names[(names.indexOf(chosen) + 1) % names.length];
      try { localStorage.setItem("pintgn.theme", chosen); } catch { /* a private window: for this page only */ }
      apply();
    });
  });
})();
