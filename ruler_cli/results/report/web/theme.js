"use strict";
// The frame of a report: its theme, print, and what stands in its head.

/** The theme that the reader chose, whether the page is printed, and what draws it anew. */
const theme = { name: "auto", printing: false, draw: () => {} };

const THEMES = ["auto", "dark", "light"];

function setTheme(name) {
  theme.name = THEMES.includes(name) ? name : "auto";
  if (theme.name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.name;
  try {
    sessionStorage.setItem("ruler-theme", theme.name);
  } catch {
    // Storage is refused where cookies are: the theme then lasts as long as the page.
  }
}

function storedTheme() {
  try {
    return sessionStorage.getItem("ruler-theme");
  } catch {
    return null;
  }
}

function ThemeButton() {
  const next = THEMES[(THEMES.indexOf(theme.name) + 1) % THEMES.length];
  const change = () => {
    setTheme(next);
    theme.draw();
  };
  return html`<button type="button" title=${`change to ${next}`} onClick=${change}>Theme: ${theme.name}</button>`;
}

/** What was found in the file, when the page was made, and what was left out of it, and by which rule. */
function Found({ data }) {
  const made = data.made.replace("T", " ").replace(/:\d\d(\.\d+)?Z$/, " UTC");
  return html`<p class="found">${visible(data.found)} · made ${visible(made)}</p>
    ${data.left_out && html`<p class="left-out">${visible(data.left_out)}</p>`}`;
}

/** Draw the page by this function whenever its theme changes, and on paper. */
function showing(draw) {
  theme.draw = draw;
  setTheme(storedTheme());
  for (const [name, printing] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      theme.printing = printing;
      // Paper is light, whatever the screen is; colours of other stylesheets go by the same attribute.
      document.documentElement.dataset.theme = "light";
      if (!printing) setTheme(theme.name);
      draw();
    });
  }
}
