// Sets the theme before anything is painted; a classic script, because modules come later. The button is in header.js.
(() => {
  try {
    const kept = localStorage.getItem("reconcile.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // Storage is forbidden here: the system's theme it is.
  }
})();
