// entry.js and what it imports → lib.js, its licences, and a manifest of both; run by `make vendor`.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const ALLOWED = ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unlicense"];

const { metafile } = await build({
  entryPoints: ["entry.js"],
  outfile: "lib.js",
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "lib",
  target: "es2022",
  charset: "ascii",
  legalComments: "none", // the full texts stand in LICENSES.txt, which the page carries too
  metafile: true,
});

// The package of a file is the nearest folder above it whose package.json has a name and a version.
function packageOf(file) {
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) {
    const at = join(folder, "package.json");
    if (existsSync(at)) {
      const found = JSON.parse(readFileSync(at, "utf8"));
      if (found.name && found.version) return { folder, ...found };
    }
  }
  return null;
}

const used = Object.values(metafile.outputs)[0].inputs;
const packages = new Map();
for (const [file, { bytesInOutput }] of Object.entries(used)) {
  const found = bytesInOutput > 0 ? packageOf(file) : null;
  if (found) packages.set(found.name, found);
}
const listed = [...packages.values()].sort((a, b) => (a.name < b.name ? -1 : 1));

const texts = new Map(); // a licence's text → the packages that have it: D3's differ in nothing
for (const { name, version, license, folder } of listed) {
  if (!ALLOWED.includes(license)) throw new Error(`${name}: ${license} is not allowed here`);
  const file = readdirSync(folder).find((entry) => /^(un)?licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name}: holds no licence text`);
  const text = readFileSync(join(folder, file), "utf8").replace(/\r\n/g, "\n").trim();
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`]);
}
const rule = "-".repeat(80);
const licences = [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`).join(`\n${rule}\n\n`);
writeFileSync("LICENSES.txt", `lib.js holds code of these packages, under these licences.\n\n${rule}\n\n${licences}`);

const digest = (file) => createHash("sha256").update(readFileSync(file)).digest("hex");
const manifest = {
  files: Object.fromEntries(["lib.js", "LICENSES.txt"].map((file) => [file, `sha256:${digest(file)}`])),
  packages: Object.fromEntries(listed.map(({ name, version, license }) => [name, { version, license }])),
};
writeFileSync("manifest.json", JSON.stringify(manifest, null, 2) + "\n");
