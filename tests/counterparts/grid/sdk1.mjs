// Owns the grid's client on @modelcontextprotocol/sdk, which speaks the older era only.
// It must not know what is asked of it: that is exchange.mjs's.
import { EventEmitter } from "node:events";
import { createRequire } from "node:module";
import { exchange } from "./exchange.mjs";

const require = createRequire(new URL("../../../.counterparts/", import.meta.url));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const schemas = require("@modelcontextprotocol/sdk/types.js");

await exchange(async ({ me, url }) => {
  const seen = { asked: undefined, updates: new EventEmitter() };
  const client = new Client({ name: me, version: "1" }, { capabilities: { elicitation: {}, sampling: {} } });
  client.setRequestHandler(schemas.ElicitRequestSchema, ({ params }) => {
    seen.asked = params.message;
    return { action: "accept", content: { colour: `blue of ${me}` } };
  });
  client.setRequestHandler(schemas.CreateMessageRequestSchema, ({ params }) => {
    const [{ content }] = params.messages;
    seen.asked = (Array.isArray(content) ? content[0] : content).text;
    return { role: "assistant", model: "none", content: { type: "text", text: `word of ${me}` } };
  });
  client.setNotificationHandler(schemas.ResourceUpdatedNotificationSchema, ({ params }) => {
    seen.updates.emit(params.uri);
  });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  let version = null;
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (negotiated) => {
    version = negotiated;
    tell?.(negotiated);
  };
  await client.connect(transport);
  // callTool has a result schema as its second parameter here.
  const { callTool } = client;
  client.callTool = (params, options) => callTool.call(client, params, undefined, options);
  return {
    client,
    seen,
    version: () => version,
    watch: (uri) => client.subscribeResource({ uri }),
    unwatch: (uri) => client.unsubscribeResource({ uri }),
    close: async () => {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
});
