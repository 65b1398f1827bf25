// Owns the grid's client on @modelcontextprotocol/client, which speaks both eras.
// It must not know what is asked of it: that is exchange.mjs's.
import { EventEmitter } from "node:events";
import { createRequire } from "node:module";
import { exchange } from "./exchange.mjs";

const require = createRequire(new URL("../../../.counterparts/", import.meta.url));
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

await exchange(async ({ me, mode, url }) => {
  const seen = { asked: undefined, updates: new EventEmitter() };
  const client = new Client(
    { name: me, version: "1" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {} },
      versionNegotiation: { mode: mode === "legacy" ? mode : { pin: mode } },
    },
  );
  client.setRequestHandler("elicitation/create", ({ params }) => {
    seen.asked = params.message;
    return { action: "accept", content: { colour: `blue of ${me}` } };
  });
  client.setRequestHandler("sampling/createMessage", ({ params }) => {
    const [{ content }] = params.messages;
    seen.asked = (Array.isArray(content) ? content[0] : content).text;
    return { role: "assistant", model: "none", content: { type: "text", text: `word of ${me}` } };
  });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    seen.updates.emit(params.uri);
  });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  return {
    client,
    seen,
    version: () => client.getNegotiatedProtocolVersion(),
    watch: (uri) =>
      mode === "legacy" ? client.subscribeResource({ uri }) : client.listen({ resourceSubscriptions: [uri] }),
    unwatch: (uri, watching) => (mode === "legacy" ? client.unsubscribeResource({ uri }) : watching.close()),
    close: async () => {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
});
