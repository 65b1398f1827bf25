// Owns a real browser (Chromium) for one visit: pages are opened, forms filled in, buttons pressed, everything noted.
// It must not know mcphub. Job (argv[2], JSON): {chromium, url, steps: [{click} | {fill: {SELECTOR: TEXT}, click}], shots}
// `click` is a selector; a step is over when the page that it leads to has been loaded. Shots are files SHOTS-N.png.
// Prints {pages: [{url, status, headers, title, text, requests: [URL]}], errors: [TEXT]}: requests since the page before.
import { createRequire } from "node:module";

const require = createRequire(new URL("../../.counterparts/", import.meta.url));
const { chromium } = require("playwright-core");
const job = JSON.parse(process.argv[2]);
// Nothing but this machine: what a page of somebody else loads from the net is not there.
const args = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"];
const browser = await chromium.launch({ executablePath: job.chromium, args });
const found = { pages: [], errors: [] };
let requests = [];
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => found.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && found.errors.push(message.text()));
  const note = async (answer) => {
    await page.screenshot({ path: `${job.shots}-${found.pages.length}.png` });
    found.pages.push({
      url: page.url(),
      status: answer?.status() ?? 0,
      headers: (await answer?.allHeaders()) ?? {},
      title: await page.title(),
      text: await page.innerText("body"),
      requests,
    });
    requests = [];
  };
  await note(await page.goto(job.url));
  for (const step of job.steps) {
    for (const [selector, text] of Object.entries(step.fill ?? {})) await page.fill(selector, text);
    const [answer] = await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.click(step.click)]);
    await note(answer);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
