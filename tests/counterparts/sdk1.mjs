// Owns one job for the official legacy SDK (@modelcontextprotocol/sdk): connect, list, call, report as one JSON line.
// It must not know mcphub: the job (argv[2], JSON) says which command to start, or which URL to connect to.
// Job: {command, args, env | url, token?, mode: "legacy", calls: [{name, arguments}]}
import { createRequire } from "node:module";

const require = createRequire(new URL("../../.counterparts/", import.meta.url));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { StdioClientTransport, getDefaultEnvironment } = require("@modelcontextprotocol/sdk/client/stdio.js");

const job = JSON.parse(process.argv[2]);
const client = new Client({ name: "counterpart-sdk1", version: "1" });
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
let version = null;
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (negotiated) => { version = negotiated; tell?.(negotiated); };

await client.connect(transport);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (const call of job.calls) results.push(await client.callTool(call));
const report = { version, server: client.getServerVersion() ?? null, tools, results, errors };
if (job.url && transport.sessionId) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(report));
