// Owns reading what a revision requires: `node requirements.mjs SUITE REVISION` prints {server, client, not_scored}.
// It must not judge: the file is the suite's own, frozen when the revision shipped, and read by the suite's own parser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [suite, revision] = process.argv.slice(2);
const { parse } = createRequire(`${suite}/`)("yaml");
const { server, client, not_scored } = parse(readFileSync(`${suite}/requirements/${revision}.yaml`, "utf8"));
console.log(JSON.stringify({ server, client, not_scored }));
