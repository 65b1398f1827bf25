// Owns the TypeScript servers of the grid: the older era on @modelcontextprotocol/sdk, the modern one on
// @modelcontextprotocol/server, each at a port of its own and in its era only, or both at one port.
// It must not know mcphub. Job (argv[2], JSON): {servers: {name: "legacy" | "modern" | ""}, clients: [name]}, "" = both.
// The first line it prints is {"urls": {name: url}}, each further one {server, feature, client}: what a client did there.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { json } from "node:stream/consumers";

const require = createRequire(new URL("../../../.counterparts/", import.meta.url));
const sdk = require("@modelcontextprotocol/sdk/server/index.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const schemas = require("@modelcontextprotocol/sdk/types.js");
const { Server, createMcpHandler, inputRequired, isLegacyRequest } = require("@modelcontextprotocol/server");
const { toNodeHandler, toWebRequest } = require("@modelcontextprotocol/node");

const TEXT = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const COLOUR = { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] };
const say = (text) => ({ content: [{ type: "text", text }] });

// What is the same in both eras. `updated` holds what tells the subscribers of each. A call's way back to its caller is
// `way`: era, progress(n, total), signal, and ask(kind, params): the answer, or undefined where the result `way.rounds()`
// has to go out first.
function peer(name, clients) {
  const notes = Object.fromEntries(clients.map((client) => [client, 0]));
  const tell = (feature, client) => console.log(JSON.stringify({ server: name, feature, client }));
  const updated = [];
  const uri = (client) => `grid://${name}/${client}`;
  const tools = {
    echo: (me, way) => {
      tell("tools/call", me);
      return say(`${name} heard ${me} in the ${way.era} era`);
    },
    ask: async (me, way) => {
      const answer = await way.ask("elicit", { message: `Which colour, ${me}?`, requestedSchema: COLOUR });
      if (!answer) return way.rounds();
      if (answer.action === "accept") tell("elicitation", me);
      return say(`${me} said ${answer.content?.colour ?? answer.action}`);
    },
    sample: async (me, way) => {
      const messages = [{ role: "user", content: { type: "text", text: `A word for ${me}` } }];
      const answer = await way.ask("createMessage", { messages, maxTokens: 20 });
      if (!answer) return way.rounds();
      tell("sampling", me);
      return say(`the model of ${me} said ${answer.content.text}`);
    },
    steps: async (me, way) => {
      for (const step of [1, 2, 3]) await way.progress(step, 3);
      tell("progress", me);
      return say("three steps");
    },
    hang: async (me, way) => {
      const cancelled = once(way.signal, "abort");
      await way.progress(1, 2);
      if (!way.signal.aborted) await cancelled;
      tell("cancel", me);
      return say("cancelled");
    },
    touch: async (me) => {
      notes[me] += 1;
      tell("subscribe", me);
      for (const each of updated) await each(uri(me));
      return say("touched");
    },
  };
  return {
    updated,
    listTools: () => ({ tools: Object.keys(tools).map((tool) => ({ name: tool, inputSchema: TEXT })) }),
    callTool: ({ params }, way) => tools[params.name](params.arguments.text, way),
    listResources: () => ({ resources: clients.map((client) => ({ uri: uri(client), name: client })) }),
    readResource: ({ params }) => {
      const me = params.uri.split("/").at(-1);
      tell("resources", me);
      return { contents: [{ uri: params.uri, mimeType: "text/plain", text: `note ${notes[me]} of ${me}` }] };
    },
    listPrompts: () => ({ prompts: [{ name: "greet", arguments: [{ name: "name", required: true }] }] }),
    getPrompt: ({ params }) => {
      const me = params.arguments.name;
      tell("prompts", me);
      return { messages: [{ role: "user", content: { type: "text", text: `Hello ${me}, from ${name}` } }] };
    },
    complete: ({ params }) => {
      const me = params.argument.value;
      if (params.ref.name === "greet" && params.argument.name === "name") tell("completion", me);
      return { completion: { values: [`${me}-1`, `${me}-2`] } };
    },
  };
}

const CAPABILITIES = { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {} };

function legacy(name, does) {
  const sessions = new Map();
  const watching = new Map();
  does.updated.push(async (uri) => {
    for (const server of watching.get(uri) ?? []) await server.sendResourceUpdated({ uri });
  });

  function server() {
    const one = new sdk.Server({ name, version: "1" }, { capabilities: CAPABILITIES });
    const way = (extra) => ({
      era: "legacy",
      signal: extra.signal,
      progress: (progress, total) => {
        const progressToken = extra._meta?.progressToken;
        if (progressToken === undefined) return undefined;
        return extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total } });
      },
      ask: (kind, params) =>
        kind === "elicit"
          ? extra.sendRequest({ method: "elicitation/create", params }, schemas.ElicitResultSchema)
          : extra.sendRequest({ method: "sampling/createMessage", params }, schemas.CreateMessageResultSchema),
    });
    one.setRequestHandler(schemas.ListToolsRequestSchema, does.listTools);
    one.setRequestHandler(schemas.CallToolRequestSchema, (request, extra) => does.callTool(request, way(extra)));
    one.setRequestHandler(schemas.ListResourcesRequestSchema, does.listResources);
    one.setRequestHandler(schemas.ReadResourceRequestSchema, does.readResource);
    one.setRequestHandler(schemas.ListPromptsRequestSchema, does.listPrompts);
    one.setRequestHandler(schemas.GetPromptRequestSchema, does.getPrompt);
    one.setRequestHandler(schemas.CompleteRequestSchema, does.complete);
    one.setRequestHandler(schemas.SubscribeRequestSchema, ({ params }) => {
      watching.set(params.uri, (watching.get(params.uri) ?? new Set()).add(one));
      return {};
    });
    one.setRequestHandler(schemas.UnsubscribeRequestSchema, ({ params }) => {
      watching.get(params.uri)?.delete(one);
      return {};
    });
    return one;
  }

  return async (request, response, body) => {
    const known = sessions.get(request.headers["mcp-session-id"]);
    if (known) return known.handleRequest(request, response, body);
    if (request.headers["mcp-session-id"]) return response.writeHead(404).end();
    // Only `initialize` may come without a session; the transport refuses all else.
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await server().connect(transport);
    return transport.handleRequest(request, response, body);
  };
}

function modern(name, does) {
  const handler = createMcpHandler(
    () => {
      const one = new Server({ name, version: "1" }, { capabilities: CAPABILITIES });
      const way = ({ mcpReq }) => {
        let asked;
        return {
          era: "modern",
          signal: mcpReq.signal,
          progress: (progress, total) => {
            const progressToken = mcpReq._meta?.progressToken;
            if (progressToken === undefined) return undefined;
            return mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total } });
          },
          ask: (kind, params) => {
            asked = inputRequired[kind](params);
            return mcpReq.inputResponses?.question;
          },
          rounds: () => inputRequired({ inputRequests: { question: asked }, requestState: "asked" }),
        };
      };
      one.setRequestHandler("tools/list", does.listTools);
      one.setRequestHandler("tools/call", (request, context) => does.callTool(request, way(context)));
      one.setRequestHandler("resources/list", does.listResources);
      one.setRequestHandler("resources/read", does.readResource);
      one.setRequestHandler("prompts/list", does.listPrompts);
      one.setRequestHandler("prompts/get", does.getPrompt);
      one.setRequestHandler("completion/complete", does.complete);
      return one;
    },
    { legacy: "reject", onerror: (error) => console.error(`${name}: ${error}`) },
  );
  does.updated.push((uri) => handler.notify.resourceUpdated(uri));
  return toNodeHandler(handler);
}

function both(name, does) {
  const [older, newer] = [legacy(name, does), modern(name, does)];
  return async (request, response) => {
    const body = request.method === "POST" ? await json(request) : undefined;
    const isOlder = await isLegacyRequest(await toWebRequest(request, body), body);
    return (isOlder ? older : newer)(request, response, body);
  };
}

const serving = { legacy, modern, "": both };
const job = JSON.parse(process.argv[2]);
const urls = {};
for (const [name, era] of Object.entries(job.servers)) {
  const listener = createServer(serving[era](name, peer(name, job.clients)));
  await once(listener.listen(0, "127.0.0.1"), "listening");
  urls[name] = `http://127.0.0.1:${listener.address().port}/mcp`;
}
console.log(JSON.stringify({ urls }));
