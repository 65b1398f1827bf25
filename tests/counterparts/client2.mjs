// Owns one job for the official client of both eras (@modelcontextprotocol/client): connect, list, call, report as one JSON line.
// It must not know mcphub: the job (argv[2], JSON) says which command to start, or which URL to connect to, and in which mode.
// Job: {command, args, env | url, token?, mode: "legacy" | "auto" | "2026-07-28", calls: [{name, arguments}]}
import { createRequire } from "node:module";

const require = createRequire(new URL("../../.counterparts/", import.meta.url));
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport, getDefaultEnvironment } = require("@modelcontextprotocol/client/stdio");

const job = JSON.parse(process.argv[2]);
const mode = ["legacy", "auto"].includes(job.mode) ? job.mode : { pin: job.mode };
const client = new Client(
  { name: "counterpart-client2", version: "1" },
  { versionNegotiation: { mode, probe: { timeoutMs: 20000 } } },
);
const headers = job.token ? { Authorization: `Bearer ${job.token}` } : {};
const transport = job.url
  ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers } })
  : new StdioClientTransport({
      command: job.command,
      args: job.args,
      env: { ...getDefaultEnvironment(), ...job.env },
    });
const errors = [];
client.onerror = (error) => errors.push(String(error));

await client.connect(transport);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (const call of job.calls) results.push(await client.callTool(call));
const report = {
  version: client.getNegotiatedProtocolVersion?.() ?? null,
  server: client.getServerVersion() ?? null,
  tools,
  results,
  errors,
};
if (job.url && transport.sessionId) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(report));
