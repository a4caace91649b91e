// Runs before the first paint, so that a theme chosen by hand does not flash. Without a choice the system decides.
const chosen = localStorage.getItem("queen-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
